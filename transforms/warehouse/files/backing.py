"""What a warehouse stands on: its store, its log, and this machine's folder for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from transforms.duck import Connection, working_connection
from transforms.memory import MEMORY_MB, memory_text, rendering_text
from transforms.scratch import scratch_folder
from transforms.stores.store import Store
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.files.local_files import MOST_CACHE_BYTES, LocalFiles
from transforms.warehouse.log.log import Log
from transforms.warehouse.log.seen import Published, SeenSnapshots
from transforms.warehouse.log.snapshot import Snapshot


@dataclass(frozen=True)
class Backing:
    """The store of a warehouse, and the folder where this machine keeps what is its own.

    `cache_bytes` bounds the copies of a bucket's files, `memory_mb` what each DuckDB that works on
    them may hold in memory, in MB. `published` reads what the archive recorded of the log.
    """

    store: Store
    cache: Path
    cache_bytes: int = MOST_CACHE_BYTES
    memory_mb: int = MEMORY_MB
    published: Published | None = None

    @cached_property
    def log(self) -> Log:
        """The snapshots."""
        return Log(self.store, SeenSnapshots(self.cache / "seen_snapshot.json", self.published))

    @cached_property
    def files(self) -> LocalFiles:
        """The volumes and other files as files of this machine."""
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

    @contextmanager
    def working(self, size: int | None = None) -> Iterator[tuple[Connection, Path]]:
        """Open a DuckDB that renders data files, and a folder for unfinished ones.

        See `working_connection` for `size`.
        """
        with (
            scratch_folder(self.scratch) as scratch,
            working_connection(scratch, size=size, memory_limit=self.rendering_limit) as con,
        ):
            yield con, scratch

    def catalog(self, snapshot: Snapshot) -> Catalog:
        """A snapshot for its readers."""
        return Catalog(snapshot, self.files)
