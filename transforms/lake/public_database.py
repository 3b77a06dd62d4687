"""`strata.duckdb`: a small DuckDB file of the statements of `strata.sql`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from transforms.duck import Connection, new_database, quote_name, quote_text, working_connection
from transforms.lake.public_views import ADDRESS_MACRO, NO_DAYS, file_lists

_LIST = re.compile(
    rf"^create macro strata\.(files_\d+|{ADDRESS_MACRO})\(\) as (\[.*\]);?$", re.MULTILINE
)


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
            con.execute(
                _LIST.sub(
                    lambda match: f"create macro strata.{match[1]}() as [{empty[match[1]]}];",
                    statements,
                )
            )
            for name, files in _LIST.findall(statements):
                con.execute(f"create or replace macro strata.{name}() as {files}")
            con.execute("commit")
            con.execute("use memory")


def _empty_files(con: Connection, statements: str, scratch: Path) -> Iterator[tuple[str, str]]:
    for files in file_lists(statements):
        path = scratch / f"{files.name}.parquet"
        columns = ", ".join(
            f"null::{kind} as {quote_name(name)}" for name, kind in files.columns.items()
        )
        con.execute(f"copy (select {columns} limit 0) to {quote_text(path)} (format parquet)")
        yield files.name, quote_text(path)
    path = scratch / f"{ADDRESS_MACRO}.json"
    path.write_text(NO_DAYS)
    yield ADDRESS_MACRO, quote_text(path)
