"""Histories of any shape go through all of it: loads, merges, publications, the way back, a copy.

Tables come and go, columns come, go and are unknown, cells fit no type, segments have no rows, a
schema version changes; what is loaded, merged and published when is drawn as well.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from zipfile import ZipFile

import duckdb
import pytest

from exporters.archive.archive import Archive
from exporters.fetching.fetch_folder import no_progress
from exporters.loading.archive_load import load_archive
from pipelines.site.lake_publishing import publish_missing
from pipelines.site.publishing import publish_segments
from pipelines.site.site import Site
from pipelines.site.site_check import verify_site
from tests.exporters.lake.lake_kit import odd_texts
from tests.pg_csv import Cell
from tests.pipelines.kit import site_settings
from tests.segments_kit import build_segment, columns, entry_bytes, table_rows
from tests.transforms.warehouse_kit import blocks_of, render
from transforms.block_range import BlockRange
from transforms.stores.folder_store import FolderStore
from transforms.tables.registry import HISTORY_TABLES, history_tables, known_table, known_tables
from transforms.verifying.verification import Verification
from transforms.warehouse.questions.warehouse_copy import write_copy
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse

_VERSIONS = (1, 6, 15, 21, 28, 36, 42, 55, 69, 90, 110, 123)
_STATES = ("accounts", "oracle_data", "assets", "node_signatures")
_TABLES = (
    *("orders", "trades", "positions", "deposits", "market_data", "rewards", "withdrawals"),
    *("liquidity_provisions", "balances", "funding_payment", "stop_orders", *_STATES),
)
_UNKNOWN = ("from_the_future", "extra", "With_Capitals", "zz")
_Rows = tuple[list[str], list[list[Cell]]]


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(1, 2), id="one"),
        pytest.param(range(200), id="many", marks=[pytest.mark.crash, pytest.mark.timeout(3600)]),
    ],
)
def test_a_history_of_any_shape_comes_out_as_it_went_in(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        print(f"history {seed}")  # pytest shows it where one fails
        _History(random.Random(seed), tmp_path / str(seed)).check()
        shutil.rmtree(tmp_path / str(seed))


@dataclass
class _History:
    """A site below a folder, of what a generator of random numbers draws."""

    chance: random.Random
    folder: Path

    def check(self) -> None:
        """Load, merge, publish; load the archive again, and hold all of it against the source."""
        site = Site(replace(site_settings(self.folder), lake=True))
        source, count = Path(site.settings.source), self.chance.randint(3, 7)
        versions = sorted(self.chance.choice(_VERSIONS) for _ in range(count))
        paths = [self._segment(source, 1 + 2 * at, of) for at, of in enumerate(versions)]
        self._load(site, paths)
        site.warehouse.compact(1)
        self._publish(site)
        assert [str(finding) for finding in verify_site(site, Verification())] == []
        again = open_warehouse(self.folder / "again")
        archive = Archive(
            FolderStore(Path(site.settings.archive)), site.loaded_catalog().snapshot.chain_id
        )
        assert load_archive(again, archive, no_progress).not_taken == []
        again.compact(1)
        for warehouse in (site.warehouse, again):
            _check_texts(warehouse, paths)
            _ask_all_views(warehouse)
        self._check_copy(self.chance.choice([site.warehouse, again]), count)

    def _load(self, site: Site, paths: list[Path]) -> None:
        waiting = [path.name for path in paths]
        while waiting:
            size = self.chance.randint(1, 3)
            some, waiting = waiting[:size], waiting[size:]
            pending = site.warehouse.survey(site.source).pending
            files = [file for file in pending if file.info.key in some]
            assert site.warehouse.load(site.source, files, site.stage).failures == []
            if self.chance.random() < 0.3:
                site.warehouse.compact(1)
            if self.chance.random() < 0.4:
                self._publish(site)

    def _publish(self, site: Site) -> None:
        assert not publish_segments(site, site.loaded_catalog().blocks).report.failed
        assert not publish_missing(site)

    def _check_copy(self, warehouse: Warehouse, count: int) -> None:
        first, last = sorted(self.chance.choices(range(count), k=2))
        blocks, path = BlockRange(1 + 2 * first, 2 + 2 * last), self.folder / "copy.duckdb"
        rows = write_copy(warehouse, path, blocks, ())
        assert rows["blocks"] == 2 * (last - first + 1)
        with duckdb.connect(path, read_only=True) as con:
            for table, number in rows.items():
                counted = con.execute(f'select count(*) from main."{table}"').fetchall()
                assert counted == [(number,)], table

    # --- what is drawn

    def _segment(self, folder: Path, first: int, version: int) -> Path:
        states = {table for table in _STATES if self.chance.random() < 0.4}
        omit = {*known_tables(version)} - {*HISTORY_TABLES, *history_tables(), *states}
        tables: dict[str, _Rows] = {}
        for table in self.chance.sample(_TABLES, 6):
            known = known_table(table, version)
            if known is None or (known.kind != "history" and table not in states):
                continue
            if table not in HISTORY_TABLES and self.chance.random() < 0.15:
                omit.add(table)
            else:
                tables[table] = self._table(table, version, first)
        return build_segment(
            folder, first=first, last=first + 1, version=version, tables=tables, omit=omit
        )

    def _table(self, table: str, version: int, first: int) -> _Rows:
        known = known_table(table, version)
        assert known is not None
        names, rows = [*columns(table, version)], list[list[Cell]]()
        if self.chance.random() < 0.6:
            free = [column for column in known.schema.columns if column.name not in known.key]
            cells: list[dict[str, Cell]] = [
                {
                    column.name: self.chance.choice([None, None, *odd_texts(column.type)])
                    for column in free
                    if self.chance.random() < 0.3
                }
                for _ in range(self.chance.randint(1, 4))
            ]
            rows = table_rows(table, *cells, version=version, first=first)[1]
        way = self.chance.random()
        if way < 0.35:
            names.append(self.chance.choice(_UNKNOWN))
            rows = [[*row, self.chance.choice([None, "", "x", "1.50", "{}"])] for row in rows]
        elif way < 0.6:
            fixed = {*known.key, "vega_time"}
            at = self.chance.choice([n for n, name in enumerate(names) if name not in fixed])
            names.pop(at)
            rows = [[*row[:at], *row[at + 1 :]] for row in rows]
        return names, rows


def _check_texts(warehouse: Warehouse, paths: list[Path]) -> None:
    for path in paths:
        with ZipFile(path) as segment:
            tables = [name.removeprefix("history/") for name in segment.namelist()]
        for table in tables:
            if "/" not in table and table != "metadata.json":
                assert render(warehouse, blocks_of(path), table) == entry_bytes(path, table), table


def _ask_all_views(warehouse: Warehouse) -> None:
    with warehouse.connect() as con:
        views = "duckdb_views() where not internal"
        query = f"select schema_name, view_name from {views}"
        for schema, name in con.execute(query).fetchall():
            con.execute(f'from {schema}."{name}"').fetchall()
