"""Queries over the current catalog, read-only: as Arrow, as CSV, as Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa

from transforms.dialect import copy_sql
from transforms.duck import Connection, quote_name, quote_text
from transforms.errors import ConfigError
from transforms.warehouse import Warehouse

# Sums of integers are HUGEINT, which Parquet would hold as a rounded DOUBLE.
_EXACT = {"HUGEINT": "DECIMAL(38,0)", "UHUGEINT": "DECIMAL(38,0)"}


@contextmanager
def query_reader(warehouse: Warehouse, query: str) -> Iterator[pa.RecordBatchReader]:
    """Run a query and stream its rows as Arrow batches. Raises `ConfigError` for wrong SQL."""
    with warehouse.connect() as con, _told():
        yield con.sql(_exact_query(con, query)).to_arrow_reader()


def copy_query(warehouse: Warehouse, query: str, path: Path, format_name: str) -> None:
    """Write a query's rows to a file: `csv` by the rules of spec 2.8, or `parquet`.

    Raises `ConfigError` for wrong SQL.
    """
    with warehouse.connect() as con, _told():
        exact = _exact_query(con, query)
        if format_name == "csv":
            con.execute(copy_sql(_text_query(con, exact), path, header=True))
        else:
            con.execute(f"copy ({exact}) to {quote_text(path)} (format parquet)")


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (duckdb.ProgrammingError, duckdb.DataError, duckdb.NotSupportedError) as error:
        raise ConfigError(f"the query cannot be run: {error}") from error


def _described(con: Connection, query: str) -> list[tuple[str, str]]:
    rows = con.execute(f"describe {query}").fetchall()
    return [(str(row[0]), str(row[1])) for row in rows]


def _exact_query(con: Connection, query: str) -> str:
    query = query.strip().rstrip(";")
    columns = _described(con, query)
    replaced = [
        f"{quote_name(name)}::{_EXACT[kind]} as {quote_name(name)}"
        for name, kind in columns
        if kind in _EXACT
    ]
    if not replaced:
        return query
    return f"select * replace ({', '.join(replaced)}) from ({query})"  # noqa: S608 - user's SQL


def _text_query(con: Connection, query: str) -> str:
    # Only text columns are written exactly as the dialect says.
    names = [quote_name(name) for name, _ in _described(con, query)]
    casts = ", ".join(f"{name}::varchar as {name}" for name in names)
    return f"select {casts} from ({query})"  # noqa: S608 - the user's own SQL, read-only
