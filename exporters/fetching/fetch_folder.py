"""Where an archive is found, and the folder that ZIPs are fetched into.

The folder is as an archive lies, with a hidden one for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from exporters.archive.archive import CHAINS, Archive, chains
from exporters.archive.entries import Entry
from exporters.exports.published_zips import published_copy
from exporters.fetching.zip_downloads import Downloads
from transforms.errors import BusyError, ConfigError, IntegrityError, OtherFormatError
from transforms.scratch import exclusive
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import SCRATCH, S3Options, Store
from transforms.stores.store_address import open_reader
from transforms.verifying.proofs import Proofs


@contextmanager
def opened_archive(address: str, options: S3Options | None = None) -> Iterator[Store]:
    """The archive at an address: a folder, `s3://bucket/prefix` or `https://`, to read from.

    Raises `ConfigError` where none is there.
    """
    with ExitStack() as stack:
        store = open_reader(address, options)
        if hasattr(store, "close"):  # a folder needs no closing
            stack.callback(store.close)
        if not _is_archive(store):
            raise ConfigError(
                f"there is no archive at {store.describe()}: it has no {CHAINS}; give the folder "
                "that has the chains' folders in it (of strata serve: http://<host>:<port>/archive)"
            )
        yield store


def _is_archive(store: Store) -> bool:
    try:
        return bool(chains(store))
    except OtherFormatError:
        raise
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


JOBS = 8
"""How many ZIPs are fetched at a time."""

Advance = Callable[[int], None]
Progress = Callable[[str, int | None], AbstractContextManager[Advance]]
"""Opens the progress of something: its name, how many bytes it has (None: not known)."""


def no_progress(_label: str, _total: int | None) -> AbstractContextManager[Advance]:
    """Nobody watches."""
    return nullcontext(lambda _bytes: None)


_WAIT_SECONDS = 1.0


@dataclass(frozen=True)
class FetchFolder:
    """The folder `path`; one process at a time fetches into it."""

    path: Path

    @property
    def scratch(self) -> Path:
        """What has not come to its end, and what was proven; no listing shows it."""
        return self.path / SCRATCH / "fetch"

    @cached_property
    def store(self) -> FolderStore:
        """The folder as an archive's store."""
        return FolderStore(self.path)

    @cached_property
    def proofs(self) -> Proofs:
        """Which ZIPs were read and found right, until they change."""
        return Proofs(self.scratch / "proofs.sqlite")

    @contextmanager
    def opened(self) -> Iterator[FetchFolder]:
        """Hold the folder for a block. Raises `BusyError`, `ConfigError` where it is none."""
        try:
            self.scratch.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise ConfigError(f"{self.path} is no folder: name another one with --out") from error
        with ExitStack() as stack:
            try:
                stack.enter_context(exclusive(self.scratch / "lock", wait_seconds=_WAIT_SECONDS))
            except BusyError as error:
                raise BusyError(
                    f"another process fetches into {self.path}: wait for it, or name another folder"
                ) from error
            stack.callback(lambda: self.proofs.close())
            yield self

    def take(self, downloads: Downloads, chain_id: str, entry: Entry) -> None:
        """Fetch a ZIP to its place, and prove and remember it. Raises `DamagedCopyError`."""
        local = Archive(self.store, chain_id)
        downloads.fetch(entry, self.store.path(local.key(entry.path)))
        published_copy(local, entry, self.proofs).prove()
