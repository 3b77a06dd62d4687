"""A database of views over a lake: what it names, and what it does not."""

from __future__ import annotations

from pathlib import Path

import duckdb

from tests.exporters.lake.lake_kit import named_files
from transforms.lake.public_views import PublicLake
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.shapes import Shape
from transforms.warehouse.views.table_views import ViewedTable

_ADDRESS = "http://[::1]:80/net"
_SHAPE = Shape({"height": "bigint", "vega_time": "timestamp with time zone", "later": "jsonb"})


def test_a_database_names_the_files_of_the_statements_and_no_others(tmp_path: Path) -> None:
    scratch, path = tmp_path / "[s]*", tmp_path / "a.duckdb"
    scratch.mkdir()
    files = {
        f"{_ADDRESS}/lake/blocks/1-9.0.parquet": ("height", "vega_time"),
        f"{_ADDRESS}/lake/blocks/10-19.0.parquet": ("height", "vega_time", "later"),
    }
    blocks = ViewedTable("blocks", _SHAPE, [*files.items()])
    empty = ViewedTable("trades", _SHAPE, ())
    manifest, conditions = f"{_ADDRESS}/lake/manifests/1-9.1.parquet", f"{_ADDRESS}/c.json"
    snapshot = Snapshot(number=1, time=1_769_860_800.0, chain_id="net")
    lake = PublicLake(snapshot, _ADDRESS, conditions, (blocks, empty), (manifest,))

    lake.write_database(path, scratch)

    with duckdb.connect(path, read_only=True) as con:
        query = "select macro_definition from duckdb_functions() where function_name like 'files%'"
        listed = "".join(definition for (definition,) in con.execute(query).fetchall())
        assert con.execute("from trades").fetchall() == []
    for address in (*files, manifest, conditions):
        assert f"'{address}'" in listed
    assert str(scratch).encode() not in path.read_bytes()
    assert {*named_files(lake.statements())} == {
        ("blocks", "1-9.0.parquet"),
        ("blocks", "10-19.0.parquet"),
        ("manifests", "1-9.1.parquet"),
    }
