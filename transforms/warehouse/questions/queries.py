"""Queries over the current catalog, read-only: which tables they name, and their rows.

One statement at a time that reads, as rows, as Arrow, as CSV, as Parquet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from transforms.duck import Connection, file_connection, plain_errors, quote_text
from transforms.errors import ConfigError
from transforms.tables.dialect import copy_sql, select_list
from transforms.tables.registry import fold_case
from transforms.warehouse.manifests.shapes import Extent, QueryTables
from transforms.warehouse.warehouse import Warehouse

_ROWS_WITHOUT_TABLES = frozenset(("generate_series", "range", "unnest"))
_SCHEMAS = frozenset(("", "exact", "main"))


def query_tables(query: str) -> QueryTables | None:
    """The tables that a query reads; None where that is not sure.

    That is so of anything but a plain `select`: what lists tables depends on all of them, and other
    functions may read any.
    """
    with file_connection() as con:
        row = con.execute("select json_serialize_sql($query)", {"query": query}).fetchone()
    tree = json.loads(row[0]) if row else {"error": True}
    if tree["error"]:
        return None
    nodes = [*_nodes(tree)]
    names = {_table_name(node) for node in nodes}
    own = {entry["key"] for node in nodes for entry in node.get("cte_map", {}).get("map", ())}
    if None in names:
        return None
    return QueryTables(frozenset(filter(None, names)), frozenset(map(fold_case, own)))


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    """The parts of a query that have names."""
    if isinstance(tree, dict):
        yield tree
        tree = [*tree.values()]
    if isinstance(tree, list):
        for part in tree:
            yield from _nodes(part)


def _table_name(node: dict[str, Any]) -> str | None:
    """The table that a part of a query is; "" for none, None for what may read other tables."""
    kind = node.get("type")
    if kind == "BASE_TABLE":
        is_plain = not node["catalog_name"] and node["schema_name"].lower() in _SCHEMAS
        return fold_case(node["table_name"]) if is_plain else None
    if kind == "TABLE_FUNCTION":
        return "" if node["function"]["function_name"] in _ROWS_WITHOUT_TABLES else None
    return None if kind == "SHOW_REF" else ""


_READING = (duckdb.StatementType.SELECT, duckdb.StatementType.MULTI)  # the latter is a pivot


def query_error(text: str) -> ConfigError:
    """The error for a query that cannot be run, from what DuckDB says of it."""
    # What follows LINE points into the query as it was wrapped, not as it was given.
    message = " ".join(text.partition("\nLINE ")[0].split())
    return ConfigError(f"the query cannot be run: {message}")


def readable(con: Connection, query: str) -> str:
    """SQL for the rows of the one statement that a query holds, which other SQL may stand around.

    Raises `ConfigError` for any other statement.
    """
    statements = con.extract_statements(query)
    if len(statements) != 1:
        raise query_error(f"it holds {len(statements)} statements, not one")
    if statements[0].type not in _READING:
        raise query_error(
            "the warehouse is only read here, by `select` and the like: strata shell runs the rest"
        )
    text = query.encode()
    tokens = (at for at, kind in duckdb.tokenize(query) if kind != duckdb.token_type.comment)
    ends = (at for at in tokens if text[at : at + 1] == b";")
    return text[: next(ends, len(text))].decode()


_HUGE = re.compile(r"\bU?HUGEINT\b")
_AS_TEXT = "VARCHAR"
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
def query_rows(
    warehouse: Warehouse, query: str, extent: Extent | None = None
) -> Iterator[tuple[Sequence[str], Iterator[Row]]]:
    """Run a query for a person or for JSON: its columns, and its rows by their places.

    Several columns may have one name. Whole numbers of any size are `int`; what neither Python nor
    JSON has a value for is DuckDB's text for it. With an `extent`, the tables of history are those
    of the volumes that can hold rows of it. Raises `ConfigError` for wrong SQL.
    """
    with _connected(warehouse, query, extent) as con, _query_errors():
        statement = readable(con, query)
        relation = con.sql(statement)
        names, kinds = relation.columns, relation.types
        casts = [
            (str(kind) if kind.id in _PLAIN else _AS_TEXT, name)
            for kind, name in zip(kinds, names, strict=True)
        ]
        makers = [int if kind.id in _WHOLE else _plain for kind in kinds]
        reader = con.sql(_cast(statement, casts)).to_arrow_reader()
        yield names, _rows(reader, makers)


def copy_query(
    warehouse: Warehouse,
    query: str,
    path: Path,
    format_name: str,
    extent: Extent | None = None,
) -> None:
    """Write a query's rows to a file: `csv` by the rules of spec 2.8, or `parquet`.

    See `query_rows` for `extent`. Raises `ConfigError` for wrong SQL.
    """
    with _connected(warehouse, query, extent) as con, _query_errors():
        exact = readable(con, query)
        columns = _columns(con, exact)
        if any("HUGEINT" in kind for kind, _ in columns):  # any sum of integers: Parquet rounds it
            exact = _cast(exact, [(_HUGE.sub("DECIMAL(38,0)", kind), n) for kind, n in columns])
        if format_name == "csv":
            # Only text columns are written exactly as the dialect says.
            texts = [(_AS_TEXT, name) for _, name in columns]
            con.execute(copy_sql(_cast(exact, texts), path, header=True))
        else:
            con.execute(f"copy ({exact}\n) to {quote_text(path)} (format parquet)")


def _connected(
    warehouse: Warehouse, query: str, extent: Extent | None
) -> AbstractContextManager[Connection]:
    """Open the warehouse for a query: of a bucket, files of other tables are not fetched."""
    # In a folder all is there, and so are the views of all.
    has_all = warehouse.in_folder and extent is None
    return warehouse.connect(extent, None if has_all else query_tables(query))


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
        raise query_error(str(error)) from error
    except OSError as error:
        if error.errno is not None:
            raise
        # Arrow hands on what DuckDB says in the middle of a stream as an OSError without a number.
        raise query_error(str(error)) from error


def _columns(con: Connection, query: str) -> list[tuple[str, str]]:
    relation = con.sql(query)
    return [(str(kind), name) for name, kind in zip(relation.columns, relation.types, strict=True)]


def _cast(query: str, columns: Sequence[tuple[str, str]]) -> str:
    # By place: a query may give several columns one name. The line feed ends a comment.
    casts = [(f"#{place}::{kind}", name) for place, (kind, name) in enumerate(columns, 1)]
    return f"select {select_list(casts)} from ({query}\n)"  # noqa: S608 - the user's own SQL
