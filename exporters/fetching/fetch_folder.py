"""The folder that ZIPs are fetched into: as an archive lies, with a hidden folder for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.exports.copies import no_other_copy
from exporters.exports.published_zips import published_copy
from exporters.fetching.zip_downloads import Downloads
from transforms.errors import BusyError, ConfigError
from transforms.scratch import exclusive
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import SCRATCH
from transforms.verifying.proofs import Proofs

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
        lock = exclusive(self.scratch / "lock", wait_seconds=_WAIT_SECONDS)
        try:
            lock.__enter__()
        except BusyError as error:
            raise BusyError(
                f"another process fetches into {self.path}: wait for it, or name another folder"
            ) from error
        try:
            yield self
        finally:
            lock.__exit__(None, None, None)
            self.proofs.close()

    def take(self, downloads: Downloads, chain_id: str, entry: Entry) -> None:
        """Fetch a ZIP to its place, and prove and remember it. Raises `DamagedCopyError`."""
        local = Archive(self.store, chain_id)
        downloads.fetch(entry, self.store.path(local.key(entry.path)))
        published_copy(local, entry, self.proofs, no_other_copy).prove()
