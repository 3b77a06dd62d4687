"""What tables and columns mean, and in which unit: the comments of the warehouse's views.

The texts lie in `meanings.json`. A column's own text comes first, then that of the history table
whose latest rows its table keeps, then what the name means in every table, and last its type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from transforms.tables.registry import UNKNOWN_TYPE, known_table

_NEWEST_VERSION = 2**31 - 1


class _Meanings(NamedTuple):
    tables: Mapping[str, str]
    twins: Mapping[str, str]
    columns: Mapping[str, Mapping[str, str]]
    names: Mapping[str, str]
    types: Mapping[str, str]
    caveats: Mapping[str, str]


@cache
def _meanings() -> _Meanings:
    content = json.loads(files("transforms.tables").joinpath("meanings.json").read_bytes())
    return _Meanings(**content)


def table_meaning(table: str) -> str:
    """One sentence on what a table holds; the table's name where nothing is known of it."""
    return _meanings().tables.get(table, f"The network's table {table}.")


def history_of(table: str) -> str | None:
    """The history table whose latest rows a table keeps."""
    return _meanings().twins.get(table)


def column_meaning(table: str, column: str) -> str:
    """One sentence on what a column means, its unit and what NULL, 0 or empty stand for.

    Never raises: of a column that is known from nowhere it says so.
    """
    meanings = _meanings()
    for source in (table, meanings.twins.get(table, "")):
        if column in meanings.columns.get(source, {}):
            return meanings.columns[source][column]
    return meanings.names.get(column) or _by_type(table, column)


def type_caveat(duckdb_type: str, table: str) -> str:
    """What to mind of a DuckDB type's values in `main.<table>`; empty where there is nothing."""
    return _meanings().caveats.get(duckdb_type, "").format(table=table)


def is_enum(column_type: str) -> bool:
    """Whether a type of the network's database is an enum: all others have a text of their own."""
    return column_type not in _meanings().types


def _by_type(table: str, column: str) -> str:
    """The column's name in words and the kind of its values."""
    state = known_table(table, _NEWEST_VERSION)
    types = {each.name: each.type for each in state.schema.columns} if state else {}
    words = column.replace("_", " ").capitalize()
    return f"{words}: {_meanings().types.get(types.get(column, UNKNOWN_TYPE), 'a name')}."
