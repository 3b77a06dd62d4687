"""Which statements may be asked of the warehouse: those that read it, one at a time."""

from __future__ import annotations

import duckdb

from transforms.duck import Connection
from transforms.errors import ConfigError

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
    return _without_end(query)


def _without_end(query: str) -> str:
    text = query.encode()
    tokens = (at for at, kind in duckdb.tokenize(query) if kind != duckdb.token_type.comment)
    ends = (at for at in tokens if text[at : at + 1] == b";")
    return text[: next(ends, len(text))].decode()
