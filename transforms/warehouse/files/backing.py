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
from transforms.warehouse.files.lost_files import Sightings
from transforms.warehouse.log.log import Log
from transforms.warehouse.log.snapshot import Snapshot

_SEEN_SECONDS = 60.0


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

    @cached_property
    def _looked(self) -> dict[int, Catalog]:
        """The catalog that the last look at the log asked for, by the look's number."""
        return {}

    @cached_property
    def _sightings(self) -> Sightings:
        return Sightings(_SEEN_SECONDS)

    def catalog(self, snapshot: Snapshot) -> Catalog:
        """A snapshot for its readers; the same one again inside of a block of `Log.one_look`.

        A block need not look for files that the ones before it, or puts, saw in the last minute.
        """
        if not self.log.look:
            return Catalog(snapshot, self.store, self.files)
        catalog = self._looked.get(self.log.look)
        if catalog is None or catalog.snapshot is not snapshot:
            catalog = Catalog(snapshot, self.store, self.files, self._sightings)
            self._looked.clear()
            self._looked[self.log.look] = catalog
        return catalog

    def saw(self, keys: Iterable[str]) -> None:
        """Files were put into the store just now: the next look need not look for them."""
        self._sightings.add(keys, Moment.now())
