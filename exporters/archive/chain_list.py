"""The list of the chains that have an archive in a store: `chains.json`."""

from __future__ import annotations

from exporters.archive.archive import read_small
from exporters.archive.entries import Json
from exporters.archive.json_text import parsed
from transforms.stores.store import Store

CHAINS = "chains.json"


def chains(store: Store) -> tuple[str, ...]:
    """The ids of the chains that have an archive in the store, sorted.

    Raises `IntegrityError` where the list of them is damaged.
    """
    return parse_chains(read_small(store, CHAINS), store)


def parse_chains(data: bytes | None, store: Store) -> tuple[str, ...]:
    """The list from its bytes (None: there is none)."""

    def read(document: Json) -> tuple[str, ...]:
        return tuple(item["chain_id"] for item in document["chains"])

    return parsed(data, store.describe(CHAINS), read) if data else ()
