"""Where the lake of a chain lies, and what its files are called.

<chain id>/lake/<table>/_delta_log/                                    the table's log
<chain id>/lake/<table>/<first>-<last>.<16 digits of SHA-256>.parquet  its rows of these blocks
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.lake_place import LAKE
from exporters.lake.log.delta import DeltaLog
from exporters.lake.log.version_cache import VersionCache
from transforms.block_range import BlockRange
from transforms.errors import SegmentError
from transforms.memory import MEMORY_MB
from transforms.tables.registry import history_tables
from transforms.warehouse.manifests.shapes import Volume

_NAME = re.compile(r"(\d{1,19})-(\d{1,19})\.([0-9a-f]{16})(?:\.([0-9a-f]{64}))?\.parquet")
PARQUET_TYPE = "application/vnd.apache.parquet"


@dataclass(frozen=True, slots=True)
class FileName:
    """The name of a file: the blocks of its segments, and the beginning of its SHA-256.

    One of current state has the SHA-256 of the CSV that it renders to, too: whoever publishes a
    newer segment sees by it whether the rows are the same.
    """

    blocks: BlockRange
    digest: str
    csv: str = ""

    def __str__(self) -> str:
        return ".".join(filter(None, (str(self.blocks), self.digest, self.csv, "parquet")))

    @classmethod
    def of(cls, blocks: BlockRange, sha256: str, csv: str = "") -> FileName:
        """The name of a file with this SHA-256 (hex); see the class for `csv`."""
        return cls(blocks, sha256[:16], csv)

    def is_of(self, sha256: str) -> bool:
        """Whether a file with this SHA-256 (hex) may have the name."""
        return sha256.startswith(self.digest)

    @classmethod
    def parse(cls, name: str) -> FileName | None:
        """What a name says; None for another one."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        try:
            return cls(BlockRange(int(match[1]), int(match[2])), match[3], match[4] or "")
        except SegmentError:  # it ends before it begins
            return None


@dataclass(frozen=True)
class Lake:
    """The lake of an archive's chain; `memory_mb` is what work on it has of memory, in MB.

    `cache` is this machine's folder for the versions of tables that it knows (None: it keeps none).
    """

    archive: Archive
    memory_mb: int = MEMORY_MB
    cache: Path | None = None

    @cached_property
    def _logs(self) -> dict[str, DeltaLog]:
        return {}

    def log(self, table: str) -> DeltaLog:
        """The log of a table, which need not be there."""
        if table not in self._logs:
            place = self.archive.key(f"{LAKE}/{table}")
            cache = VersionCache.of(self.cache, self.place("")) if self.cache else None
            self._logs[table] = DeltaLog(self.archive.store, place, table, cache)
        return self._logs[table]

    def path(self, table: str, name: str) -> str:
        """Where a file lies, below the chain's folder."""
        return f"{LAKE}/{table}/{name}"

    def key(self, table: str, name: str) -> str:
        """The object's key of a file."""
        return self.archive.key(self.path(table, name))

    def parts(self, key: str) -> tuple[str, str]:
        """The table that an object of the lake belongs to (empty: none), and its name there."""
        first, slash, name = key.removeprefix(self.folder).partition("/")
        return (first, name) if slash else ("", first)

    @property
    def folder(self) -> str:
        """The beginning of the keys of everything in the lake."""
        return self.archive.key(f"{LAKE}/")

    def place(self, table: str, name: str = "") -> str:
        """A table's or a file's full address, for a person."""
        return self.archive.place(self.path(table, name).rstrip("/"))


def lake_tables(volumes: Iterable[Volume]) -> list[str]:
    """The tables that a lake has of volumes of history: those in which there are rows, sorted."""
    with_rows = chain.from_iterable(volume.data for volume in volumes)
    return sorted(frozenset(history_tables()).intersection(with_rows))
