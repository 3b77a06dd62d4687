"""Where an archive is found, and which of its chains is meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from exporters.archive.archive import Archive
from exporters.archive.chain_list import CHAINS, chains
from transforms.errors import ConfigError, IntegrityError
from transforms.stores.store import S3Options, Store
from transforms.stores.store_address import open_reader

# `strata serve` has the archive below this path.
_SERVED = "archive"


@contextmanager
def opened_archive(address: str, options: S3Options | None = None) -> Iterator[Store]:
    """The archive at an address: a folder, `s3://bucket/prefix` or `https://`, to read from.

    The address of a running `strata serve` is enough. Raises `ConfigError` where none is there.
    """
    with ExitStack() as stack:

        def opened(url: str) -> Store:
            store = open_reader(url, options)
            stack.callback(getattr(store, "close", _nothing))
            return store

        yield _found(address, opened)


def _nothing() -> None:
    """A folder needs no closing."""


def _found(address: str, opened: Callable[[str], Store]) -> Store:
    store = opened(address)
    if _is_archive(store):
        return store
    if address.startswith(("http://", "https://")):
        served = opened(f"{address.rstrip('/')}/{_SERVED}")
        with suppress(ConfigError):
            if _is_archive(served):
                return served
    raise ConfigError(
        f"there is no archive at {store.describe()}: it has no {CHAINS}; give the folder that has "
        "the chains' folders in it"
    )


def _is_archive(store: Store) -> bool:
    try:
        return bool(chains(store))
    except IntegrityError as error:  # a page that greets, in place of an answer, is one, too
        raise ConfigError(
            f"{store.describe(CHAINS)} is no list of chains ({error}): give the address of an "
            "archive"
        ) from error


def choose_chain(store: Store, chain_id: str | None) -> Archive:
    """The archive of a chain; the only one where none is named.

    Raises `ConfigError` where there is no such chain, or several and none is named.
    """
    chain_ids = chains(store)
    if chain_id is None and len(chain_ids) == 1:
        return Archive(store, chain_ids[0])
    if chain_id in chain_ids:
        return Archive(store, chain_id)
    there = f"{store.describe()} has {', '.join(chain_ids)}"
    if chain_id is None:
        raise ConfigError(f"{there}: name one of them with --chain")
    raise ConfigError(f"there is no chain {chain_id!r} here: {there}")
