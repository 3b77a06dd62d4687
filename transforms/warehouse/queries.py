"""Queries over the current catalog, read-only: as Arrow, as CSV, as Parquet."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa

from transforms.duck import Connection, quote_text
from transforms.errors import ConfigError
from transforms.open_files import is_open_files
from transforms.tables.dialect import copy_sql, select_list
from transforms.warehouse.shapes import Extent
from transforms.warehouse.warehouse import Warehouse

_HUGE = re.compile(r"\bU?HUGEINT\b")
_READING = (duckdb.StatementType.SELECT, duckdb.StatementType.MULTI)  # the latter is a pivot


@contextmanager
def query_reader(
    warehouse: Warehouse, query: str, extent: Extent | None = None
) -> Iterator[pa.RecordBatchReader]:
    """Run a query and stream its rows as Arrow batches. Raises `ConfigError` for wrong SQL.

    With an `extent`, the tables of history are those of the volumes that can hold rows of it.
    """
    with warehouse.connect(extent) as con, _plain_errors():
        yield con.sql(_exact(con, _statement(con, query))).to_arrow_reader()


def copy_query(
    warehouse: Warehouse,
    query: str,
    path: Path,
    format_name: str,
    extent: Extent | None = None,
) -> None:
    """Write a query's rows to a file: `csv` by the rules of spec 2.8, or `parquet`.

    See `query_reader` for `extent`. Raises `ConfigError` for wrong SQL.
    """
    with warehouse.connect(extent) as con, _plain_errors():
        exact = _exact(con, _statement(con, query))
        if format_name == "csv":
            # Only text columns are written exactly as the dialect says.
            texts = [(name, "VARCHAR") for name, _ in _columns(con, exact)]
            con.execute(copy_sql(_cast(exact, texts), path, header=True))
        else:
            con.execute(f"copy ({exact}\n) to {quote_text(path)} (format parquet)")


@contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except (duckdb.ProgrammingError, duckdb.DataError, duckdb.NotSupportedError) as error:
        raise _query_error(str(error)) from error
    except OSError as error:
        if error.errno is not None or is_open_files(error):
            raise
        # Arrow hands on what DuckDB says in the middle of a stream as an OSError without a number.
        raise _query_error(str(error)) from error


def _query_error(text: str) -> ConfigError:
    # What follows LINE points into the query as it was wrapped, not as it was given.
    message = " ".join(text.partition("\nLINE ")[0].split())
    return ConfigError(f"the query cannot be run: {message}")


def _statement(con: Connection, query: str) -> str:
    """The text of the one statement that a query holds, without its end."""
    found = con.extract_statements(query)
    if len(found) != 1:
        raise _query_error(f"it holds {len(found)} statements, not one")
    if found[0].type not in _READING:
        raise _query_error("the warehouse is only read, by `select` and the like")
    text = query.encode()
    ends = (at for at, _ in duckdb.tokenize(query) if text[at : at + 1] == b";")
    return text[: next(ends, len(text))].decode()


def _columns(con: Connection, query: str) -> list[tuple[str, str]]:
    relation = con.sql(query)
    return [(name, str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True)]


def _exact(con: Connection, query: str) -> str:
    """The query with decimals for HUGEINT (any sum of integers), which Parquet would round."""
    columns = _columns(con, query)
    if not any("HUGEINT" in kind for _, kind in columns):
        return query
    return _cast(query, [(name, _HUGE.sub("DECIMAL(38,0)", kind)) for name, kind in columns])


def _cast(query: str, columns: Sequence[tuple[str, str]]) -> str:
    # By place: a query may give several columns one name. The line feed ends a comment.
    casts = [(f"#{place}::{kind}", name) for place, (name, kind) in enumerate(columns, 1)]
    return f"select {select_list(casts)} from ({query}\n)"  # noqa: S608 - the user's own SQL
