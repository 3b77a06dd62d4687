"""Writing `strata.sql` and `strata.duckdb`: what the lake has now, at the archive's public address.

The database is written before the statements, which have its hash: who is killed between the two
leaves a pair that does not match, and the next publisher writes both. Nothing is written where the
statements stay the same.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from exporters.archive.archive import won_race
from exporters.archive.lake_place import MANIFESTS, STATE_MANIFEST
from exporters.archive.public_sql import (
    PUBLIC_DATABASE,
    PUBLIC_SQL,
    PUBLIC_TYPES,
    sealed_sql,
)
from exporters.archive.sound_documents import CONDITIONS
from exporters.lake.lake_files import Lake, lake_tables
from exporters.lake.log.table_version import ActiveFile
from transforms.errors import IntegrityError
from transforms.lake.public_views import PublicLake
from transforms.scratch import scratch_folder
from transforms.stores.store import asked_together, content_sha256, versioned
from transforms.tables.registry import history_tables
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.views.catalog_views import catalog_tables
from transforms.warehouse.views.table_views import ViewedTable, absent_names

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PublicDocuments:
    """The two documents of a lake whose archive anybody reads at `address`.

    `catalog` is what is loaded; `scratch` is where the database is made.
    """

    lake: Lake
    address: str
    catalog: Catalog
    scratch: Path

    def write(self) -> bool:
        """Write both if the statements changed, or either is damaged, or not of the other.

        Returns whether anything was written: `SHA256SUMS` names both. Raises `BusyError` where
        others win all the time.
        """
        return won_race(self._write, self.lake.archive.place(PUBLIC_SQL))

    def _write(self) -> bool:
        store, key = self.lake.archive.store, self.lake.archive.key
        sql, database = (versioned(store, key(name)) for name in (PUBLIC_SQL, PUBLIC_DATABASE))
        public = self.public_lake()
        if not public.tables:
            return False
        if sql and database:
            sha256 = content_sha256(database[0])
            if sql[0] == sealed_sql(public.statements(), sha256):
                return False
        with scratch_folder(self.scratch) as folder:
            sealed, path = self.make(public, folder), folder / PUBLIC_DATABASE
            for name, data, old in ((PUBLIC_DATABASE, path, database), (PUBLIC_SQL, sealed, sql)):
                version, sha256 = old[1] if old else None, content_sha256(data)
                store.put_if_match(key(name), data, version, PUBLIC_TYPES[name], sha256=sha256)
        return True

    def make(self, public: PublicLake, folder: Path) -> bytes:
        """Make the database in a folder, and give the document that has its hash."""
        with scratch_folder(self.scratch) as scratch:
            public.write_database(folder / PUBLIC_DATABASE, scratch)
        return sealed_sql(public.statements(), content_sha256(folder / PUBLIC_DATABASE))

    def public_lake(self) -> PublicLake:
        """What the lake has now."""
        names = self.lake.look()
        shapes = {table.name: table.shape for table in catalog_tables(self.catalog)}
        history = self.catalog.snapshot.history
        asked = asked_together(self.lake.archive.store, self._files, names)
        files: dict[str, Sequence[ActiveFile]] = {
            name: its for name, its in zip(names, asked, strict=True) if its
        }
        state = files.pop(STATE_MANIFEST, ())
        manifests = [self._address(MANIFESTS, file) for file in files.pop(MANIFESTS, ())]
        if files:  # those that no segment has rows of are there, too
            dumped = {name for volume in history for name in volume.shapes}
            empty = dumped.intersection(history_tables()).difference(lake_tables(history))
            files |= dict.fromkeys(empty, ())
        tables = []
        for name in sorted(files.keys() & shapes):
            its = [(self._address(name, file), file.columns) for file in files[name]]
            # Current state that is the same since an earlier segment was not published again.
            is_state = any(file.csv for file in files[name])
            state_of = max(file.blocks for file in (*files[name], *state)) if is_state else None
            tables.append(ViewedTable(name, shapes[name], its, state_of))
        address = f"{self.address}/{self.lake.archive.chain_id}"
        conditions, absent = f"{address}/{CONDITIONS}", absent_names({*shapes, *files})
        snapshot = self.catalog.snapshot
        return PublicLake(snapshot, address, conditions, tables, tuple(manifests), absent)

    def _address(self, table: str, file: ActiveFile) -> str:
        return f"{self.address}/{self.lake.table(table).key(file.name)}"

    def _files(self, table: str) -> Sequence[ActiveFile]:
        """The files of a table; none where it cannot be used."""
        try:
            return self.lake.table(table).files
        except IntegrityError as error:
            _log.warning("%s leaves a table out: %s", self.lake.archive.place(PUBLIC_SQL), error)
            return ()
