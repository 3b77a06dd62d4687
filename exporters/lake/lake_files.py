"""Where the lake of a chain lies, and what its files are called.

<chain id>/lake/<table>/_delta_log/                                    the table's log
<chain id>/lake/<table>/<first>-<last>.<16 digits of SHA-256>.parquet  its rows of these blocks
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from math import inf
from pathlib import Path, PurePosixPath

from exporters.archive.archive import Archive, update, won_race
from exporters.archive.lake_place import LAKE, LAKE_PAGE, MANIFESTS
from exporters.lake.log.table_schema import KEPT_HOURS
from exporters.lake.log.table_version import new_name
from exporters.lake.tables import LakeTable
from transforms.errors import ConflictError, IntegrityError
from transforms.objects import ObjectInfo, StoredFile
from transforms.stores.store import asked_together, folder_infos
from transforms.tables.registry import history_tables
from transforms.warehouse.manifests.shapes import Volume

_HTML = "text/html; charset=utf-8"
SEGMENT_TABLES = (*history_tables(), MANIFESTS)
"""The tables of a lake that grow by segments; those of current state are written anew whole."""


@dataclass
class Lake:
    """The lake of an archive's chain.

    `cache` is this machine's folder for the versions of tables that it knows (None: it keeps none).
    """

    archive: Archive
    cache: Path | None = None
    _tables: dict[str, LakeTable] = field(default_factory=dict, init=False)
    _listed: dict[str, list[ObjectInfo]] | None = field(default=None, init=False)
    _page: ObjectInfo | None = field(default=None, init=False)

    def table(self, name: str) -> LakeTable:
        """A table, which need not be there."""
        if name not in self._tables:
            key = self.archive.key(f"{LAKE}/{name}")
            self._tables[name] = LakeTable(self.archive.store, key, self.cache)
            if self._listed is not None:
                self._tables[name].look(self._listed.get(name, ()))
        return self._tables[name]

    def look(self) -> Sequence[str]:
        """Look at all tables as they are now, by one listing; the names of those that are there."""
        self._tables.clear()
        self._listed, self._page = {}, None
        folder = self.archive.key(LAKE)
        for info in folder_infos(self.archive.store, folder):
            name, slash, _ = info.key.removeprefix(f"{folder}/").partition("/")
            if slash:
                self._listed.setdefault(name, []).append(info)
            elif info.key == self.archive.key(LAKE_PAGE):
                self._page = info
        return sorted(self._listed)

    def refusals(
        self, work: Callable[[LakeTable], object], tables: Collection[str]
    ) -> dict[str, str]:
        """Do work on each of these tables, again where it loses a race.

        Returns why it cannot be done on a table, for what that holds already; the others go on.
        Errors of the machine pass through.
        """

        def reason(name: str) -> str:
            table = self.table(name)
            try:
                won_race(partial(work, table), table.place())
            except (ConflictError, IntegrityError) as error:
                return str(error)
            return ""

        reasons = asked_together(self.archive.store, reason, tables)
        return {name: why for name, why in zip(tables, reasons, strict=True) if why}

    def _write_page(self, is_reduced: bool) -> None:
        """Link all folders and files of the tables, unless the page was written after them.

        `is_reduced` says that files were removed.
        """
        infos = [info for name in self._listed or () for info in self.table(name).infos.values()]
        newest = max((info.modified for info in infos), default=inf)
        is_fresh = self._page is not None and newest < self._page.modified
        if not infos or (is_fresh and not is_reduced):
            return
        # A command that has nothing to publish renders no page.
        from exporters.archive.page import files_page

        folder = f"{self.archive.key(LAKE)}/"
        paths = {info.key.removeprefix(folder) for info in infos}
        folders = {f"{parent}/" for path in paths for parent in PurePosixPath(path).parents}
        page = files_page(folder, sorted({"index.html"} | paths | folders - {"./"}))
        update(self.archive.store, self.archive.key(LAKE_PAGE), lambda _: page, _HTML)

    def sweep(self, kept_hours: int = KEPT_HOURS) -> dict[str, str]:
        """Remove files that no version of the last week names, those of killed publishers too.

        Ages are by the store's clock. Returns why tables stay as they are that are damaged or that
        others wrote to. Less than a week is for who knows that nobody publishes or reads. Costs a
        listing of the lake, and a reading of logs that others wrote to. Writes the lake's page.
        """
        oldest, names = self.archive.store.now() - kept_hours * 3600, self.look()
        listed = sum(map(len, (self._listed or {}).values()))
        refused = self.refusals(lambda table: table.sweep(oldest), names)
        self._write_page(sum(len(self.table(name).infos) for name in names) < listed)
        return refused


def file_of(volume: Volume, table: str) -> StoredFile | None:
    """The file of a volume that a table has; None where it has no rows of the table."""
    return volume.file if table == MANIFESTS else volume.data.get(table)


def file_name(volume: Volume, table: str) -> str | None:
    """What that file is called in the table."""
    stored = file_of(volume, table)
    return new_name(volume.blocks, stored.sha256) if stored else None


def lake_tables(volumes: Iterable[Volume]) -> list[str]:
    """The tables that a lake has of volumes of history: those in which there are rows, sorted."""
    with_rows = chain.from_iterable(volume.data for volume in volumes)
    return sorted(frozenset(history_tables()).intersection(with_rows))
