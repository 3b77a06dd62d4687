"""Tables that no network has yet, with names that something of ours or of DuckDB's has, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporters.archive.lake_place import MANIFESTS, STATE_MANIFEST
from tests.segments_kit import table_rows
from tests.transforms.warehouse_kit import (
    Held,
    exact_tables,
    history_segment,
    load_folder,
    query,
    verify,
)
from transforms.tables.registry import RESERVED_TABLES, tables_ever
from transforms.warehouse.warehouse_address import open_warehouse

_NAMES = (
    # What a volume says of itself, and its lookups.
    *("segments", "receipts", "origin", "orders_by_id", "withdrawals_by_party", "facts"),
    # Schemas, catalogs, and what a load calls its own while it works.
    *("main", "strata", "exact", "temp", "system", "volume", "staged", "records", "old0"),
    # Words and views of DuckDB.
    *("select", "table", "from", "order", "duckdb_tables", "sqlite_master", "pg_class", "con"),
    "x" * 63,
)


@pytest.mark.parametrize("folder", ["history", "currentstate"])
def test_a_table_may_have_any_plain_name(tmp_path: Path, folder: str) -> None:
    extra = {f"{folder}/{name}": b"a,b\n1,x\n2,\n" for name in _NAMES}
    paths = [
        history_segment(tmp_path / "s", first=first, last=first + 1, extra_entries=extra)
        for first in (1, 5)
    ]
    assert load_folder(tmp_path / "w", tmp_path / "s").failures == []
    warehouse = open_warehouse(tmp_path / "w")
    rows = [("1", "x"), ("2", None)]
    expected = sorted(rows * 2, key=str) if folder == "history" else rows
    for compacted in (False, True):
        if compacted:
            warehouse.compact(most_partial=1)
        assert list(verify(warehouse)) == []
        with warehouse.connect() as con:
            for name in _NAMES:
                for schema in ("main", "exact"):
                    found = con.execute(f'select a, b from {schema}."{name}"').fetchall()
                    assert sorted(found, key=str) == expected, f"{schema}.{name}"
        assert query(warehouse, "select count(*) from strata.segments") == [(2,)]
        if folder == "history":
            assert all(all(exact_tables(warehouse, path).values()) for path in paths)


@pytest.mark.parametrize("folder", ["history", "currentstate"])
@pytest.mark.parametrize("name", ["spam_captures", MANIFESTS, STATE_MANIFEST])
def test_a_table_named_as_one_of_ours_is_refused(tmp_path: Path, folder: str, name: str) -> None:
    history_segment(tmp_path / "s", extra_entries={f"{folder}/{name}": b"a\n"}, last=2)
    (refusal,) = load_folder(tmp_path / "w", tmp_path / "s").failures
    assert f"{folder}/{name} has the name of a table of Strata's own" in refusal.reason


def test_no_other_view_of_ours_has_the_name_of_a_table(held: Held) -> None:
    volumes = held.warehouse.loaded_catalog().snapshot.volumes
    tables = {table for volume in volumes for table in volume.shapes}
    views = query(
        held.warehouse,
        "select view_name from duckdb_views() where schema_name = 'main' and not internal",
    )
    assert {name for (name,) in views} <= tables | RESERVED_TABLES | {*tables_ever()}


def test_names_of_columns_are_folded_as_duckdb_does(tmp_path: Path) -> None:
    header, _ = table_rows("orders", {})
    paths = []
    for first, names in ((1, ("other", "Plain")), (5, ("pLAIN",))):
        _, rows = table_rows("orders", {}, {}, first=first)
        longer = [[*row, *("x" * (at + 1) for at, _ in enumerate(names))] for row in rows]
        tables = {"orders": ([*header, *names], longer)}
        paths.append(history_segment(tmp_path / "s", first=first, last=first + 1, tables=tables))

    assert load_folder(tmp_path / "w", tmp_path / "s").failures == []

    warehouse = open_warehouse(tmp_path / "w")
    assert all(all(exact_tables(warehouse, path).values()) for path in paths)
    columns = query(warehouse, "select distinct other, plain from orders order by 2")
    assert columns == [(None, "x"), ("x", "xx")]
