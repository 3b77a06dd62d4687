"""Queries over the current catalog, read-only: which tables they name, and their rows.

One statement at a time that reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from transforms.duck import Connection, plain_errors
from transforms.errors import ConfigError
from transforms.tables.registry import fold_case
from transforms.warehouse.views.catalog_views import view_names
from transforms.warehouse.warehouse import Warehouse

_WORD = re.compile(r"\w+")
# What may read tables that a query does not name, or lists them.
_OTHERS = re.compile(
    r"\b(describe|explain|information_schema|query|show|summarize|(duckdb|pg|sqlite)_\w+"
    r"|strata(?!\.(amount|moment)\b))\b",
    re.IGNORECASE,
)


def query_tables(query: str, tables: Iterable[str]) -> frozenset[str] | None:
    """Those of some tables that a query may read; None where it may read any."""
    if _OTHERS.search(query):
        return None
    words = set(map(fold_case, _WORD.findall(query)))
    return frozenset(table for table in tables if fold_case(table) in words)


_READING = (duckdb.StatementType.SELECT, duckdb.StatementType.MULTI)  # the latter is a pivot
_PLAIN = frozenset(
    (
        *("boolean", "tinyint", "smallint", "integer", "bigint"),
        *("utinyint", "usmallint", "uinteger", "ubigint", "float", "double", "decimal", "varchar"),
    )
)
"""The types whose values Python and JSON have; others, like times, are shown as DuckDB's text."""
_WHOLE = frozenset(("hugeint", "uhugeint"))

Row = tuple[object, ...]


@contextmanager
def query_rows(warehouse: Warehouse, query: str) -> Iterator[tuple[Sequence[str], Iterator[Row]]]:
    """Run a query for a person or for JSON: its columns, and its rows by their places.

    Several columns may have one name. Whole numbers of any size are `int`; what neither Python nor
    JSON has a value for is DuckDB's text for it. Raises `ConfigError` for wrong SQL,
    `IntegrityError` for a damaged file.
    """
    catalog = warehouse.loaded_catalog()
    # Files of other tables are not hashed and, of a bucket, not fetched.
    tables = query_tables(query, view_names(catalog))
    part = None if tables is None else catalog.of_tables(tables)
    warehouse.prove(part or catalog)
    with warehouse.connect(None if warehouse.in_folder else part) as con, _query_errors():
        relation = con.sql(_reading(con, query))
        kinds = [kind.id for kind in relation.types]
        # By place: a query may give several columns one name.
        casts = (
            f"#{n}{'' if k in _PLAIN else '::varchar'} as c{n}" for n, k in enumerate(kinds, 1)
        )
        reader = relation.project(", ".join(casts)).to_arrow_reader()
        yield relation.columns, _rows(reader, [int if k in _WHOLE else _plain for k in kinds])


def _reading(con: Connection, query: str) -> str:
    """The one statement of a query. Raises `ConfigError` unless it is one that reads."""
    statements = con.extract_statements(query)
    if len(statements) != 1:
        raise _query_error(f"it holds {len(statements)} statements, not one")
    if statements[0].type not in _READING:
        raise _query_error(
            "the warehouse is only read here, by `select` and the like: strata shell runs the rest"
        )
    text = query.encode()
    tokens = (at for at, kind in duckdb.tokenize(query) if kind != duckdb.token_type.comment)
    ends = (at for at in tokens if text[at : at + 1] == b";")
    return text[: next(ends, len(text))].decode()  # DuckDB takes no comment after the end


def _rows(reader: pa.RecordBatchReader, makers: Sequence[Callable[[Any], object]]) -> Iterator[Row]:
    for batch in reader:
        columns = [
            [None if value is None else make(value) for value in column.to_pylist()]
            for make, column in zip(makers, batch.columns, strict=True)
        ]
        yield from zip(*columns, strict=True)


def _plain(value: Any) -> object:  # noqa: ANN401 - any value
    """A value; a decimal without fraction as a whole number."""
    is_whole = isinstance(value, Decimal) and value.as_tuple().exponent == 0
    return int(value) if is_whole else value


@contextmanager
def _query_errors() -> Iterator[None]:
    try:
        with plain_errors():
            yield
    except (duckdb.ProgrammingError, duckdb.DataError, duckdb.NotSupportedError) as error:
        raise _query_error(str(error)) from error


def _query_error(text: str) -> ConfigError:
    message = " ".join(text.partition("\nLINE ")[0].split())
    return ConfigError(f"the query cannot be run: {message}")
