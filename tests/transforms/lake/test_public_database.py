"""A database of statements that come from an archive: they reach no other file."""

from __future__ import annotations

from pathlib import Path

import pytest

from transforms.errors import IntegrityError
from transforms.lake.public_database import database_contents, write_database

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


def test_two_databases_of_the_same_statements_have_the_same_contents(scratch: Path) -> None:
    files = [scratch / f"{name}.duckdb" for name in "ab"]
    for file in files:
        write_database(file, _STATEMENTS, scratch)
    first, second = (database_contents(file, scratch) for file in files)
    assert first == second
    assert "https://example.org/net/lake/blocks/1-9.0.parquet" in str(first)
    assert str(scratch) not in str(first)


@pytest.mark.parametrize(
    "statement",
    [
        "copy (select 1) to '{file}';",
        "create table a as from read_text('{file}');",
        "attach '{file}.duckdb' as other;",
        "set enable_external_access = true;",
    ],
)
def test_a_statement_that_reaches_elsewhere_is_refused(
    scratch: Path, tmp_path: Path, statement: str
) -> None:
    file = tmp_path / "elsewhere"
    file.write_text("as it was")
    text = _STATEMENTS + statement.format(file=file)
    with pytest.raises(IntegrityError, match="the statements cannot be run"):
        write_database(scratch / "a.duckdb", text, scratch)
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere", "scratch"]
    assert file.read_text() == "as it was"
