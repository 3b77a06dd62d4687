"""The columns of a data file: how each column of a CSV lies in Parquet.

It has the types that Delta tables and the engines that read them share. What they cannot hold
stands as text in the row's `_raw` map (`transforms.tables.conform`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transforms.duck import quote_name
from transforms.tables.conform import conversion
from transforms.tables.dialect import select_list
from transforms.tables.registry import Column

_TYPES = {
    "VARCHAR": "string",
    "JSON": "string",
    "BOOLEAN": "boolean",
    "SMALLINT": "short",
    "INTEGER": "integer",
    "BIGINT": "long",
    "DOUBLE": "double",
    "DECIMAL(38,0)": "decimal(38,0)",
    "DECIMAL(38,16)": "decimal(38,16)",
    "TIMESTAMPTZ": "timestamp",
}
_DUCK_TYPES = {
    "string": "VARCHAR",
    "short": "SMALLINT",
    "long": "BIGINT",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
}


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column of a data file: its name, its Delta type."""

    name: str
    type: str


OWN_TYPES = {"_segment": "BIGINT", "_row": "BIGINT", "_raw": "MAP(VARCHAR, VARCHAR)"}
"""Beside a CSV's columns: its segment's first block, the row's place from 1, texts by column."""

OWN_MEANINGS = {
    "_segment": "First block (height) of the segment that the row came from.",
    "_row": "The row's place in its segment's CSV, from 1.",
    "_raw": "Column to exact text, of cells that the column's type cannot hold; normally NULL.",
}
"""What people read about these columns."""


def duck_type(kind: str) -> str:
    """DuckDB's name of a plain type of Delta; most are called so in both."""
    return _DUCK_TYPES.get(kind, kind.upper())


def file_columns(table: str, columns: Sequence[Column]) -> tuple[FileColumn, ...]:
    """A CSV's columns as a data file has them, in order."""
    return tuple(FileColumn(c.name, _TYPES[conversion(table, c).type]) for c in columns)


def file_rows(table: str, columns: Sequence[Column], rows: str) -> str:
    """SQL from typed rows (a relation) to those of a data file."""
    values = [(_value(table, column), column.name) for column in columns]
    return f"select {select_list([*values, *((name, name) for name in OWN_TYPES)])} from {rows}"  # noqa: S608 - quoted


def _value(table: str, column: Column) -> str:
    """SQL for a column of a CSV: JSON is text in the file."""
    name = quote_name(column.name)
    return f"{name}::varchar" if conversion(table, column).type == "JSON" else name
