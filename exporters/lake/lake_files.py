"""Where the lake of a chain lies, and what its files are called.

<chain id>/lake/<table>/_delta_log/                                    the table's log
<chain id>/lake/<table>/<first>-<last>.<16 digits of SHA-256>.parquet  its rows of these blocks
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.lake_place import LAKE, MANIFESTS
from exporters.lake.log.delta import DeltaLog
from exporters.lake.log.table_version import ActiveFile, FileName
from exporters.lake.log.version_cache import VersionCache
from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo
from transforms.stores.store import content_sha256
from transforms.tables.registry import history_tables
from transforms.warehouse.manifests.shapes import Volume

SEGMENT_TABLES = (*history_tables(), MANIFESTS)
"""The tables of a lake that grow by segments; those of current state are written anew whole."""

PARQUET_TYPE = "application/vnd.apache.parquet"


@dataclass(frozen=True)
class Lake:
    """The lake of an archive's chain.

    `cache` is this machine's folder for the versions of tables that it knows (None: it keeps none).
    """

    archive: Archive
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

    def listing(self) -> dict[str, list[ObjectInfo]]:
        """What lies in the folder of each table (empty: in none)."""
        infos: dict[str, list[ObjectInfo]] = {}
        for info in self.archive.store.list(self.folder):
            infos.setdefault(self.parts(info.key)[0], []).append(info)
        return infos

    def path(self, table: str, name: str) -> str:
        """Where a file lies, below the chain's folder."""
        return f"{LAKE}/{table}/{name}"

    def key(self, table: str, name: str) -> str:
        """The object's key of a file."""
        return self.archive.key(self.path(table, name))

    def fetch(self, table: str, file: ActiveFile, copy: Path) -> None:
        """Fetch a file of a table; see `fetch_proven`."""
        fetch_proven(self.archive, self.path(table, file.name), copy, file.is_of)

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


def fetch_proven(archive: Archive, path: str, copy: Path, is_of: Callable[[str], bool]) -> None:
    """Fetch a file below the chain's folder; `is_of` says whether a SHA-256 is that of its name.

    Raises `IntegrityError` where it is gone, or not what its name says.
    """
    place, remedy = archive.place(path), "strata verify says what mends it"
    try:
        archive.store.fetch(archive.key(path), copy)
    except FileNotFoundError as error:
        raise IntegrityError(f"{place} is gone, and a log or a list names it: {remedy}") from error
    sha256 = content_sha256(copy)
    if not is_of(sha256):
        what = f"hashes to {sha256}, which is not what its name says"
        raise IntegrityError(f"{place} {what}: {remedy}")


def file_name(volume: Volume, table: str) -> str | None:
    """What the file of a volume is called in a table; None where it has no rows of the table."""
    stored = volume.file if table == MANIFESTS else volume.data.get(table)
    return str(FileName.of(volume.blocks, stored.sha256)) if stored else None


def lake_tables(volumes: Iterable[Volume]) -> list[str]:
    """The tables that a lake has of volumes of history: those in which there are rows, sorted."""
    with_rows = chain.from_iterable(volume.data for volume in volumes)
    return sorted(frozenset(history_tables()).intersection(with_rows))
