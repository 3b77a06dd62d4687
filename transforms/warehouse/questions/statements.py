"""Which statements may be asked of the warehouse: those that read it, one at a time."""

from __future__ import annotations

import duckdb

from transforms.duck import Connection
from transforms.errors import ConfigError

_READING = (duckdb.StatementType.SELECT, duckdb.StatementType.MULTI)  # the latter is a pivot
_PRAGMAS = frozenset(
    (
        *("collations", "database_list", "database_size", "functions", "metadata_info"),
        *("platform", "show_databases", "show_tables", "show_tables_expanded", "storage_info"),
        *("table_info", "user_agent", "version"),
    )
)
"""The pragmas that only read; the others change settings, or read other files."""


def query_error(text: str) -> ConfigError:
    """The error for a query that cannot be run, from what DuckDB says of it."""
    # What follows LINE points into the query as it was wrapped, not as it was given.
    message = " ".join(text.partition("\nLINE ")[0].split())
    return ConfigError(f"the query cannot be run: {message}")


def readable(con: Connection, query: str) -> str:
    """SQL for the rows of the one statement that a query holds, which other SQL may stand around.

    What cannot stand inside other SQL (`explain`, `pragma`) is run, and its rows are named. Raises
    `ConfigError` for any statement that does more than read.
    """
    statements = con.extract_statements(query)
    if len(statements) != 1:
        raise query_error(f"it holds {len(statements)} statements, not one")
    kind = statements[0].type
    text = _without_end(query)
    if kind in _READING:
        return text
    if (kind == duckdb.StatementType.EXPLAIN and _explains_reading(con, text)) or (
        kind == duckdb.StatementType.PRAGMA and _pragma(text) in _PRAGMAS
    ):
        con.register("answered", con.sql(text).to_arrow_table())
        return "from answered"
    raise query_error("the warehouse is only read, by `select` and the like")


def _tokens(text: str) -> list[int]:
    """Where the parts of a statement begin, in its bytes, without comments."""
    return [at for at, kind in duckdb.tokenize(text) if kind != duckdb.token_type.comment]


def _without_end(query: str) -> str:
    text = query.encode()
    ends = (at for at in _tokens(query) if text[at : at + 1] == b";")
    return text[: next(ends, len(text))].decode()


def _explains_reading(con: Connection, text: str) -> bool:
    """Whether what an `explain` is about only reads: `explain analyze` runs it."""
    raw = text.encode()
    rest = [raw[at:] for at in _tokens(text)][1:]
    if rest and rest[0][:7].lower() in (b"analyze", b"analyse"):
        del rest[0]
    if rest and rest[0].startswith(b"(") and not _statements(con, rest[0]):
        depth = 0  # options: what is explained follows their end
        while rest:
            depth += {b"(": 1, b")": -1}.get(rest.pop(0)[:1], 0)
            if not depth:
                break
    statements = _statements(con, rest[0]) if rest else []
    return len(statements) == 1 and statements[0].type in _READING


def _statements(con: Connection, text: bytes) -> list[duckdb.Statement]:
    try:
        return con.extract_statements(text.decode())
    except duckdb.ParserException:
        return []


def _pragma(text: str) -> str:
    """The name of a pragma, in small letters."""
    raw = text.encode()
    places = [*_tokens(text), len(raw)]
    return raw[places[1] : places[2]].decode().strip().lower()
