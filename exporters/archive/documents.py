"""What follows from the published entries: hash lists, the index, the pages.

Every document is computed from the ones before it, so it can be made again at any time, by any
publisher, and comes out the same. Writing them in this order, each by compare-and-swap, leaves
nothing stale when a publisher dies or two publish at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from exporters.archive.archive import Archive, read_small, update
from exporters.archive.entries import Json
from exporters.archive.index import ArchiveIndex, ShardSummary, index_bytes, parse_index
from exporters.archive.ledger import replacements
from exporters.archive.page import chain_page, home_page, shard_page
from exporters.archive.shards import FORMAT, SHARD_BLOCKS, Shard, json_lines, parsed, shard_path
from transforms.stores.store import Store

CHAINS = "chains.json"
HOME = "index.html"

_HTML, _JSON, _TEXT = "text/html; charset=utf-8", "application/json", "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Document:
    """A small object that follows from others; `content` gets the bytes it has now, if any."""

    key: str
    content_type: str
    content: Callable[[bytes | None], bytes]


def refresh(archive: Archive, numbers: Iterable[int]) -> int:
    """Bring everything up to date that follows from these shards; return how many were written."""
    return sum(
        update(archive.store, document.key, document.content, document.content_type)
        for document in documents(archive, list(numbers))
    )


def stored_shards(archive: Archive) -> Iterator[int]:
    """Yield the numbers of the shards that are there, ascending, whatever the index says."""
    for info in archive.store.list(archive.key("index/")):
        name = info.key.rpartition("/")[2].removesuffix(".json")
        if name.isdecimal():
            yield int(name) // SHARD_BLOCKS


def chains(store: Store) -> tuple[str, ...]:
    """The ids of the chains that have an archive in the store, sorted."""
    return _parse_chains(read_small(store, CHAINS), store)


def documents(archive: Archive, numbers: Iterable[int]) -> Iterator[Document]:
    """The documents that follow from these shards, in the order in which they are written."""
    shards = sorted(set(numbers))
    for number in shards:
        yield from _of_shard(archive, number)
    yield Document(archive.key("index.json"), _JSON, lambda old: _index(archive, shards, old))
    yield Document(archive.key("index.html"), _HTML, lambda _: _chain_page(archive))
    yield Document(CHAINS, _JSON, lambda old: _chains(archive, old))
    yield Document(HOME, _HTML, lambda _: _home_page(archive.store))


def _of_shard(archive: Archive, number: int) -> Iterator[Document]:
    path = archive.key(shard_path(number)).removesuffix(".json")
    yield Document(f"{path}.sha256", _TEXT, lambda _: _hashes(archive, number))
    yield Document(f"{path}.html", _HTML, lambda _: shard_page(archive.shard(number)))


def _hashes(archive: Archive, number: int) -> bytes:
    entries = archive.shard(number).entries
    return "".join(f"{entry.sha256}  {entry.path}\n" for entry in entries).encode()


def _index(archive: Archive, numbers: Iterable[int], old: bytes | None) -> bytes:
    if not old:  # the first one, or one that was lost: the shards are the truth
        return index_bytes(
            ArchiveIndex(archive.chain_id).including(_summaries(archive, stored_shards(archive)))
        )
    index = parse_index(old, archive.place("index.json"))
    return index_bytes(index.including(_summaries(archive, numbers)))


def _summaries(archive: Archive, numbers: Iterable[int]) -> Iterator[ShardSummary]:
    for number in numbers:
        data = archive.read(shard_path(number))
        if data is not None:
            yield ShardSummary.of(Shard.parse(data, archive.place(shard_path(number))), data)


def _chain_page(archive: Archive) -> bytes:
    return chain_page(archive.index(), replacements(archive))


def _chains(archive: Archive, old: bytes | None) -> bytes:
    held = {archive.chain_id, *_parse_chains(old, archive.store)}
    rows = [{"chain_id": chain, "index": f"{chain}/index.json"} for chain in sorted(held)]
    return json_lines({"format": FORMAT, "chains": rows})


def _home_page(store: Store) -> bytes:
    return home_page([Archive(store, chain).index() for chain in chains(store)])


def _parse_chains(data: bytes | None, store: Store) -> tuple[str, ...]:
    def read(found: Json) -> tuple[str, ...]:
        return tuple(item["chain_id"] for item in found["chains"])

    return parsed(data, store.describe(CHAINS), read) if data else ()
