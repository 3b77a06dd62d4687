"""What `strata shell` says at a terminal before DuckDB's program: what is there, and how to ask."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from pipelines.commands.display import Screen
from transforms.duck import Connection, quote_name, quote_text
from transforms.warehouse.files.catalog import Catalog

_HOW = (
    "Ask: from orders limit 5;   describe trades;   summarize trades;   .tables   .quit",
    "Columns have comments: select column_name, comment from duckdb_columns() "
    "where table_name = 'orders';",
    "Times are UTC. Questions with their SQL: docs/cookbook.md",
)


def greet(screen: Screen, catalog: Catalog, con: Connection) -> None:
    """Show the tables that have rows; `con` has the views of what will be asked."""
    for line in _lines(catalog, con):
        screen.message(line)


def _lines(catalog: Catalog, con: Connection) -> Iterator[str]:
    history = sorted({table for volume in catalog.history() for table in volume.data})
    states = {table for volume in catalog.states() for table in volume.shapes}
    yield f"{catalog.chain_id}, read-only. Tables that have rows:"
    for title, tables in (
        ("history", history),
        ("current state", _with_rows(con, sorted(states.difference(history)))),
    ):
        yield from textwrap.wrap(
            ", ".join(tables) or "none",
            width=100,
            initial_indent=f"  {title}: ",
            subsequent_indent="    ",
        )
    yield from _HOW


def _with_rows(con: Connection, tables: list[str]) -> list[str]:
    """Those of the tables that have a row."""
    if not tables:
        return []
    queries = (
        f"select {quote_text(table)} where exists (from main.{quote_name(table)})"
        for table in tables
    )
    return [table for (table,) in con.execute(" union all ".join(queries)).fetchall()]
