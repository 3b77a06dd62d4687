"""A database of statements: what it names, and what it does not."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from transforms.lake.public_database import write_database

_STATEMENTS = """\
create schema strata;
-- files_1 {"table": "blocks", "version": 1, "columns": {"height": "BIGINT"}}
create macro strata.files_1() as ['https://example.org/net/lake/blocks/1-9.0.parquet'];
create view blocks as from read_parquet(strata.files_1());
"""


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def test_a_database_names_the_files_of_the_statements_and_no_others(scratch: Path) -> None:
    path = scratch / "a.duckdb"
    write_database(path, _STATEMENTS, scratch)
    with duckdb.connect(path, read_only=True) as con:
        query = "select macro_definition from duckdb_functions() where function_name = 'files_1'"
        ((definition,),) = con.execute(query).fetchall()
    assert "https://example.org/net/lake/blocks/1-9.0.parquet" in definition
    assert str(scratch).encode() not in path.read_bytes()
