"""Where the lake of a chain lies, and what its files are called.

<chain id>/lake/<table>/_delta_log/                                    the table's log
<chain id>/lake/<table>/<first>-<last>.<16 digits of SHA-256>.parquet  its rows of these blocks
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.lake_place import LAKE, MANIFESTS
from exporters.lake.log.table_version import ActiveFile, new_name
from exporters.lake.tables import LakeTable, listed
from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo
from transforms.stores.store import content_sha256
from transforms.tables.registry import history_tables
from transforms.warehouse.manifests.shapes import Volume

SEGMENT_TABLES = (*history_tables(), MANIFESTS)
"""The tables of a lake that grow by segments; those of current state are written anew whole."""

_RETRIES = 2


@dataclass
class Lake:
    """The lake of an archive's chain.

    `cache` is this machine's folder for the versions of tables that it knows (None: it keeps none).
    """

    archive: Archive
    cache: Path | None = None
    _tables: dict[str, LakeTable] = field(default_factory=dict, init=False)

    def table(self, name: str) -> LakeTable:
        """A table, which need not be there."""
        if name not in self._tables:
            store, key = self.archive.store, self.archive.key(f"{LAKE}/{name}")
            self._tables[name] = LakeTable(store, key, self.cache)
        return self._tables[name]

    def look(self) -> Sequence[str]:
        """Look at all tables as they are now, by one listing; the names of those that are there."""
        self._tables.clear()
        infos: dict[str, list[ObjectInfo]] = {}
        for info in listed(self.archive.store, self.folder.rstrip("/")):
            infos.setdefault(self.parts(info.key)[0], []).append(info)
        infos.pop("", None)
        for name in infos:
            self.table(name).look(infos[name])
        return sorted(infos)

    def key(self, table: str, name: str) -> str:
        """The object's key of a file."""
        return f"{self.folder}{table}/{name}"

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
        return self.archive.place(f"{LAKE}/{table}/{name}".rstrip("/"))

    def fetch(self, table: str, file: ActiveFile, copy: Path) -> None:
        """Fetch a file, and again where the connection ended, or other bytes arrived.

        Raises `IntegrityError` where it is gone, or not what its name says.
        """
        for _ in range(_RETRIES):
            with suppress(ConnectionError, IntegrityError):
                return self._fetch(table, file, copy)
        return self._fetch(table, file, copy)

    def _fetch(self, table: str, file: ActiveFile, copy: Path) -> None:
        place, remedy = self.place(table, file.name), "strata verify says what mends it"
        try:
            self.archive.store.fetch(self.key(table, file.name), copy)
        except FileNotFoundError as error:
            raise IntegrityError(f"{place} is gone, and a log names it: {remedy}") from error
        digest = content_sha256(copy)
        if not file.is_of(digest):
            what = f"hashes to {digest}, which is not what its name says"
            raise IntegrityError(f"{place} {what}: {remedy}")


def file_name(volume: Volume, table: str) -> str | None:
    """What the file of a volume is called in a table; None where it has no rows of the table."""
    stored = volume.file if table == MANIFESTS else volume.data.get(table)
    return new_name(volume.blocks, stored.sha256) if stored else None


def lake_tables(volumes: Iterable[Volume]) -> list[str]:
    """The tables that a lake has of volumes of history: those in which there are rows, sorted."""
    with_rows = chain.from_iterable(volume.data for volume in volumes)
    return sorted(frozenset(history_tables()).intersection(with_rows))
