"""The file of views: what a new snapshot changes of it, and that this is all it reads."""

from __future__ import annotations

from pathlib import Path

import duckdb

from tests.transforms.warehouse_kit import history_segment, load_folder, state_segment
from transforms.tables.reference import schema_reference
from transforms.warehouse.warehouse_address import open_warehouse

_VIEWS = "select schema_name, view_name, sql, comment from duckdb_views() where not internal"
_NOT_EMPTY = (
    "select view_name from duckdb_views() where schema_name = 'main' and not internal "
    "and comment not like '%no segment%'"
)
_COMMENTS = "select schema_name, table_name, column_name, comment from duckdb_columns()"


def _asked(views: Path, query: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(views), read_only=True) as con:
        return sorted(con.execute(query).fetchall(), key=str)


def _comments(views: Path) -> dict[object, str]:
    """The comment of each view."""
    rows = _asked(views, "select view_name, comment from duckdb_views() where not internal")
    return {name: str(comment) for name, comment in rows}


def _loaded(root: Path, source: Path, last: int) -> Path:
    """Load one more segment of ten blocks; returns the file of views."""
    state_segment(source, first=last - 9, last=last)
    assert load_folder(root, source).failures == []
    return root / "current.duckdb"


def test_the_next_snapshot_has_the_views_of_one_made_from_nothing(tmp_path: Path) -> None:
    root = tmp_path / "warehouse"
    for last in (10, 20, 30):
        views = _loaded(root, tmp_path / "source", last)
    changed = [_asked(views, query) for query in (_VIEWS, _COMMENTS)]
    assert _asked(views, "select count(*), max(height) from blocks") == [(30, 30)]
    assert _asked(views, "select count(*) from strata.segments") == [(3,)]

    views.unlink()
    open_warehouse(root).show()

    assert [_asked(views, query) for query in (_VIEWS, _COMMENTS)] == changed


def test_the_next_snapshot_opens_no_data_file_before(tmp_path: Path) -> None:
    root, source = tmp_path / "warehouse", tmp_path / "source"
    history_segment(source, last=10)
    load_folder(root, source)
    before = {path: path.read_bytes() for path in (root / "data").rglob("*.parquet")}
    history_segment(source, first=11, last=20)
    for path, data in before.items():
        path.write_bytes(b"x" * len(data))

    load_folder(root, source)

    for path, data in before.items():
        path.write_bytes(data)
    assert _asked(root / "current.duckdb", "select count(*) from blocks") == [(20,)]


def test_a_table_with_other_columns_gets_other_views(tmp_path: Path) -> None:
    root, source = tmp_path / "warehouse", tmp_path / "source"
    history_segment(source, last=10)
    load_folder(root, source)
    history_segment(source, first=11, last=20, version=21)
    load_folder(root, source)
    views = root / "current.duckdb"
    assert _asked(views, "select count(peak_size) from orders") == [(0,)]
    assert _asked(views, "select count(*) from blocks") == [(20,)]


def test_a_damaged_file_of_views_is_not_built_upon(tmp_path: Path) -> None:
    root, source = tmp_path / "warehouse", tmp_path / "source"
    views = _loaded(root, source, 10)
    data = bytearray(views.read_bytes())
    for place in range(3 * 4096 + 100, len(data), 16384):  # each block behind the three headers
        data[place] ^= 0xFF
    views.write_bytes(data)
    views = _loaded(root, source, 20)
    assert _asked(views, "select count(*) from blocks") == [(20,)]


def test_the_file_of_views_does_not_grow_with_snapshots(tmp_path: Path) -> None:
    root = tmp_path / "warehouse"
    sizes = [_loaded(root, tmp_path / "source", last).stat().st_size for last in range(10, 80, 10)]
    assert sizes[-1] <= 1.2 * sizes[1]


def test_documented_tables_that_no_segment_has_are_empty_until_one_has(tmp_path: Path) -> None:
    root, source = tmp_path / "warehouse", tmp_path / "source"
    history_segment(source, last=10)
    load_folder(root, source)
    views = root / "current.duckdb"
    reference = schema_reference()
    there = {name for (name,) in _asked(views, "select distinct table_name from strata.receipts")}
    absent = reference.keys() - there
    assert {"accounts", "funding_payment"} <= absent
    comments = _comments(views)
    kinds = "select table_name, column_name, data_type from duckdb_columns()"
    columns = {(table, column): kind for table, column, kind in _asked(views, kinds)}
    counts = " union all ".join(f"select count(*) from {name}" for name in absent)
    assert set(_asked(views, counts)) == {(0,)}
    for name in absent:
        assert comments[name].startswith(reference[name].meaning)
        assert "no segment" in comments[name]
        for column in reference[name].columns:
            kind = column.type.replace("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE")
            assert columns[name, column.name] == kind, (name, column.name)

    state_segment(source, first=11, last=20)
    load_folder(root, source)

    present = {name for (name,) in _asked(views, "select distinct table_name from strata.receipts")}
    states = {name for (name,) in _asked(views, _NOT_EMPTY)} - present
    assert states
    comments = _comments(views)
    assert all("Current state" in comments[name] for name in states)
