"""`strata.duckdb`: a small DuckDB file of the statements of `strata.sql`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transforms.duck import (
    Connection,
    attached,
    new_database,
    quote_text,
    working_connection,
)
from transforms.duck import quote_name as quoted
from transforms.duck_errors import Error
from transforms.errors import IntegrityError
from transforms.lake.public_views import ADDRESS_MACRO, NO_DAYS, file_lists

_LIST = re.compile(rf"create macro strata\.(files_\d+|{ADDRESS_MACRO})\(\) as ")
_CONTENTS = (
    "select schema_name, view_name, sql, comment from duckdb_views()",
    "select schema_name, function_name, parameters, macro_definition, comment "
    "from duckdb_functions()",
    "select schema_name, table_name, column_name, data_type, comment from duckdb_columns()",
    "select schema_name, table_name, sql, comment from duckdb_tables()",
)


def write_database(path: Path, statements: str, scratch: Path) -> None:
    """Write a new database of these statements; nothing that they name is asked for.

    A view is only made over files that are there: until all are made, each list is that of a
    file without rows. Raises `IntegrityError` for statements that cannot be run.
    """
    with _enclosed(scratch, path.parent) as con:
        empty = dict(_empty_files(con, statements, scratch))
        try:
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
        except Error as error:
            reason = str(error).splitlines()[0]
            raise IntegrityError(f"the statements cannot be run: {reason}") from error


def database_contents(path: Path, scratch: Path) -> list[tuple[object, ...]]:
    """What a database has: views, macros, comments, and the rows of its tables.

    Raises `IntegrityError` where it cannot be read.
    """
    try:
        with _enclosed(scratch, path.parent) as con, attached(con, path, "made", "(read_only)"):
            con.execute("use made")
            rows = [row for query in _CONTENTS for row in _rows(con, f"{query} where not internal")]
            tables = _rows(con, "select schema_name, table_name from duckdb_tables()")
            for schema, table in tables:
                rows += _rows(con, f"from {quoted(str(schema))}.{quoted(str(table))}")
            con.execute("use memory")
            return sorted(rows, key=repr)
    except Error as error:
        reason = str(error).splitlines()[0]
        raise IntegrityError(f"DuckDB cannot read it: {reason}") from error


def _rows(con: Connection, query: str) -> list[tuple[object, ...]]:
    return con.execute(query).fetchall()


@contextmanager
def _enclosed(scratch: Path, folder: Path) -> Iterator[Connection]:
    """A connection that reads and writes in these folders only: statements are from an archive."""
    with working_connection(scratch) as con:
        allowed = ", ".join(quote_text(f"{path}/") for path in (scratch, folder))
        con.execute(f"set allowed_directories = [{allowed}]")
        con.execute("set enable_external_access = false")
        con.execute("set lock_configuration = true")
        yield con


def _empty_files(con: Connection, statements: str, scratch: Path) -> Iterator[tuple[str, Path]]:
    for files in file_lists(statements):
        path = scratch / f"{files.name}.parquet"
        columns = ", ".join(
            f"null::{kind} as {quoted(name)}" for name, kind in files.columns.items()
        )
        con.execute(f"copy (select {columns} limit 0) to {quote_text(path)} (format parquet)")
        yield files.name, path
    path = scratch / f"{ADDRESS_MACRO}.json"
    path.write_text(NO_DAYS)
    yield ADDRESS_MACRO, path
