"""`strata.duckdb`: a small DuckDB file of the statements of `strata.sql`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from transforms.duck import Connection, new_database, quote_name, quote_text, working_connection
from transforms.lake.public_views import ADDRESS_MACRO, NO_DAYS, file_lists

_LIST = re.compile(rf"create macro strata\.(files_\d+|{ADDRESS_MACRO})\(\) as ")


def write_database(path: Path, statements: str, scratch: Path) -> None:
    """Write a new database of these statements; nothing that they name is asked for.

    A view is only made over files that are there: until all are made, each list is that of a
    file without rows.
    """
    with working_connection(scratch) as con:
        empty = dict(_empty_files(con, statements, scratch))
        with new_database(con, path, "fresh", 0):
            con.execute("use fresh")
            con.execute("begin")
            lists = []
            for statement in con.extract_statements(statements):
                match = _LIST.search(statement.query)
                if match is None:
                    con.execute(statement)
                    continue
                name, listed = match[1], statement.query[match.end() :]
                lists.append(f"create or replace macro strata.{name}() as {listed}")
                con.execute(f"create macro strata.{name}() as [{quote_text(empty[name])}]")
            for statement_text in lists:
                con.execute(statement_text)
            con.execute("commit")
            con.execute("use memory")


def _empty_files(con: Connection, statements: str, scratch: Path) -> Iterator[tuple[str, Path]]:
    for files in file_lists(statements):
        path = scratch / f"{files.name}.parquet"
        columns = ", ".join(
            f"null::{kind} as {quote_name(name)}" for name, kind in files.columns.items()
        )
        con.execute(f"copy (select {columns} limit 0) to {quote_text(path)} (format parquet)")
        yield files.name, path
    path = scratch / f"{ADDRESS_MACRO}.json"
    path.write_text(NO_DAYS)
    yield ADDRESS_MACRO, path
