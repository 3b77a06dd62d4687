"""Writing `strata.sql` and `strata.duckdb`: what the lake has now, at the archive's public address.

The database is written before the statements, which have its hash: who is killed between the two
leaves statements that are older, and the next publisher writes both. Nothing is written where the
statements stay the same.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path

from exporters.archive.archive import read_small, won_race
from exporters.archive.lake_place import MANIFESTS
from exporters.archive.public_sql import (
    PUBLIC_DATABASE,
    PUBLIC_SQL,
    PUBLIC_TYPES,
    sealed_sql,
    unsealed_sql,
)
from exporters.archive.sound_documents import CONDITIONS
from exporters.lake.lake_files import Lake, lake_tables
from exporters.lake.publication.state_tables import is_state
from exporters.lake.tables import LakeTable, Version
from transforms.block_range import BlockRange
from transforms.errors import ConflictError, IntegrityError
from transforms.lake.public_views import (
    PublicLake,
    lasting,
    named_files,
    public_statements,
    public_table,
    snapshot_line,
    write_database,
)
from transforms.scratch import scratch_folder
from transforms.stores.store import asked_together, content_sha256, versioned
from transforms.tables.registry import history_tables
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.views.catalog_views import table_shapes
from transforms.warehouse.views.table_views import absent_names

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PublicDocuments:
    """The two documents of a lake whose archive anybody reads at `address`.

    `catalog` is what is loaded, `state` the receipts of its newest current state, by table.
    `scratch` is where the database is made.
    """

    lake: Lake
    address: str
    catalog: Catalog
    state: Mapping[str, Receipt]
    scratch: Path

    def write(self, *, is_proven: bool = False) -> bool:
        """Write both if the statements changed; with `is_proven`, also where either is damaged.

        Returns whether anything was written: `SHA256SUMS` names both. Raises `BusyError` where
        others win all the time.
        """
        attempts = count()
        return won_race(
            lambda: self._write(is_proven=is_proven, is_forced=next(attempts) > 0),
            self.lake.archive.place(PUBLIC_SQL),
        )

    def _write(self, *, is_proven: bool, is_forced: bool) -> bool:
        """Write once; `is_forced` after a lost race, in which either may be another writer's."""
        store, key = self.lake.archive.store, self.lake.archive.key
        present = versioned(store, key(PUBLIC_SQL))
        before, sha256 = self._before(present[0] if present else None)
        public = self._public_lake(frozenset(named_files(before)))
        if not public.tables:
            return False
        last = max((segment.last for segment in self.catalog.blocks), default=0)
        now = datetime.now(UTC).isoformat(" ", "seconds")
        line = snapshot_line(self.catalog.snapshot.number, last, now, public)
        statements = public_statements(public, line)
        is_same = not is_forced and lasting(statements) == lasting(before)
        if is_same and not (is_proven and self._is_damaged(sha256)):
            return False
        database = versioned(store, key(PUBLIC_DATABASE))
        with scratch_folder(self.scratch) as folder:
            path = folder / PUBLIC_DATABASE
            write_database(path, public, line, folder)
            sha256 = content_sha256(path)
            version = database[1] if database else None
            kind = PUBLIC_TYPES[PUBLIC_DATABASE]
            store.put_if_match(key(PUBLIC_DATABASE), path, version, kind, sha256=sha256)
        sealed = sealed_sql(statements, sha256)
        version = present[1] if present else None
        store.put_if_match(key(PUBLIC_SQL), sealed, version, PUBLIC_TYPES[PUBLIC_SQL])
        return True

    def _before(self, data: bytes | None) -> tuple[str, str]:
        """The statements that are there, and the hash of their database; empty where none are."""
        if data is None:
            return "", ""
        try:
            return unsealed_sql(data, self.lake.archive.place(PUBLIC_SQL))
        except IntegrityError as error:
            _log.warning("%s; it is made again from the lake", error)
            return "", ""

    def _is_damaged(self, sha256: str) -> bool:
        """Whether the database is not the one of that hash."""
        archive = self.lake.archive
        data = read_small(archive.store, archive.key(PUBLIC_DATABASE))
        if data is not None and content_sha256(data) == sha256:
            return False
        what = "is gone" if data is None else "is not as it was written"
        _log.warning("%s %s: it is made again", archive.place(PUBLIC_DATABASE), what)
        return True

    # --- what the lake has

    def _public_lake(self, named: Collection[tuple[str, str]]) -> PublicLake:
        """What there is now; `named` are the files, by table, that somebody named already."""
        shapes, history = table_shapes(self.catalog), lake_tables(self.catalog.history())
        states = {name for volume in self.catalog.states() for name in volume.shapes}
        names = sorted({*history, MANIFESTS, *filter(is_state, states)})
        versions = asked_together(
            self.lake.archive.store, partial(self._version, frozenset(named)), names
        )
        address = f"{self.address}/{self.lake.archive.chain_id}"
        files: dict[str, dict[tuple[str, ...], list[str]]] = {}
        state_of: dict[str, BlockRange | None] = {}
        for version in filter(None, versions):
            state_of[version.table] = self._state_of(version)
            groups = files.setdefault(version.table, {})
            for item in version.files:
                place = f"{address}/{self.lake.path(version.table, item.name)}"
                groups.setdefault(item.columns, []).append(place)
        manifests = [place for group in files.pop(MANIFESTS, {}).values() for place in group]
        # History of which no segment has rows has no table in the lake.
        dumped = {name for volume in self.catalog.history() for name in volume.shapes}
        empty = dumped.intersection(history_tables()).difference(history) if files else ()
        tables = [
            public_table(name, shapes[name], files.get(name, {}), state_of.get(name))
            for name in sorted({*files, *empty})
        ]
        return PublicLake(
            self.lake.archive.chain_id,
            address,
            f"{address}/{CONDITIONS}",
            tables,
            tuple(manifests),
            absent_names({*shapes, *files}),
        )

    def _version(self, named: Collection[tuple[str, str]], name: str) -> Version | None:
        """A table with files as it is now; None where it is not there, or cannot be used."""
        table = LakeTable(self.lake, name)
        try:
            version = table.expected()
            if version is not None:
                known = {*version.content.added, *version.content.removed}
                # This machine may know an older one than who named those files.
                if any(other == name and file not in known for other, file in named):
                    version = table.version()
            return version if version and version.files else None
        except (ConflictError, IntegrityError) as error:
            _log.warning("%s leaves a table out: %s", self.lake.archive.place(PUBLIC_SQL), error)
            return None

    def _state_of(self, version: Version) -> BlockRange | None:
        """The segment whose current state a table has: the newest, if its rows are the same."""
        receipt = self.state.get(version.table)
        csvs = [item.csv for item in version.files]
        if receipt and csvs == [receipt.sha256]:
            return receipt.blocks
        return max((item.blocks for item in version.files), default=None) if any(csvs) else None
