"""What a warehouse stands on: its store, its log, and this machine's folder for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from transforms.memory import MEMORY_MB, memory_text, rendering_text
from transforms.moments import Moment
from transforms.stores.store import Store
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.files.local_files import LocalFiles
from transforms.warehouse.log.log import Log
from transforms.warehouse.log.snapshot import Snapshot

_SEEN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Sighting:
    """The keys of files that are there, and when the oldest of them was seen or put."""

    keys: frozenset[str]
    since: Moment

    def is_recent(self) -> bool:
        """Whether another look need not look for them."""
        return self.since.passed() < _SEEN_SECONDS


@dataclass(frozen=True, slots=True)
class _Look:
    """A look at the log: its number, its catalog, when the oldest of its files was seen."""

    look: int
    catalog: Catalog
    since: Moment

    @property
    def sighting(self) -> _Sighting:
        """What it saw so far."""
        return _Sighting(self.catalog.seen, self.since)


@dataclass(frozen=True)
class Backing:
    """The store of a warehouse, and the folder where this machine keeps what is its own.

    `cache_bytes` bounds the copies of a bucket's files (None: the default), `memory_mb` what each
    DuckDB that works on them may hold in memory, in MB.
    """

    store: Store
    cache: Path
    cache_bytes: int | None = None
    memory_mb: int = MEMORY_MB

    @cached_property
    def log(self) -> Log:
        """The snapshots."""
        return Log(self.store, self.cache)

    @cached_property
    def files(self) -> LocalFiles:
        """The volumes and other files as files of this machine."""
        if self.cache_bytes is None:
            return LocalFiles(self.store, self.cache)
        return LocalFiles(self.store, self.cache, self.cache_bytes)

    @property
    def memory_limit(self) -> str:
        """The bound of memory in DuckDB's notation."""
        return memory_text(self.memory_mb)

    @property
    def rendering_limit(self) -> str:
        """The same for who renders data files; see `rendering_text`."""
        return rendering_text(self.memory_mb)

    @property
    def scratch(self) -> Path:
        """Where unfinished files lie."""
        return self.cache / "scratch"

    def catalog(self, snapshot: Snapshot) -> Catalog:
        """A snapshot for its readers; the same one again inside of a block of `Log.one_look`.

        A block need not look for files that the ones before it, or puts, saw in the last minute.
        """
        if not self.log.look:
            return Catalog(snapshot, self.store, self.files)
        look, before = self.log.look, self._looks[0] if self._looks else None
        if before and before.look == look and before.catalog.snapshot is snapshot:
            return before.catalog
        seen = [put for put in self._puts if put.is_recent()]
        if before and (before.look == look or before.sighting.is_recent()):
            seen.append(before.sighting)
        keys = frozenset[str]().union(*(each.keys for each in seen))
        since = max((each.since for each in seen), key=Moment.passed, default=Moment.now())
        catalog = Catalog(snapshot, self.store, self.files, keys)
        self._looks[:] = [_Look(look, catalog, since)]
        self._puts.clear()
        return catalog

    def saw(self, keys: Iterable[str]) -> None:
        """Files were put into the store just now: the next catalog need not look for them."""
        self._puts.append(_Sighting(frozenset(keys), Moment.now()))

    @cached_property
    def _puts(self) -> list[_Sighting]:
        return []

    @cached_property
    def _looks(self) -> list[_Look]:
        """The look that was the last to be asked for a catalog, if any."""
        return []
