"""The columns of a data file: how each column of a CSV lies in Parquet.

It has the types that Delta tables and the engines that read them share. What they cannot hold
stands as text in the row's `_raw` map, beside the texts that no type of DuckDB holds, so that
nothing is lost (spec 2.8): times that are infinite or outside the years 1 to 9999, of which the
last millisecond is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from transforms.duck import quote_name
from transforms.tables.conform import conversion, raw_map, rendered
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
# Where readers have milliseconds, the greatest time of a file rounded up is one of the same year.
_FIRST_TIME, _LAST_TIME = "0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999+00"


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
    return tuple(_file_column(table, column) for column in columns)


def _file_column(table: str, column: Column) -> FileColumn:
    return FileColumn(column.name, _TYPES[conversion(table, column).type])


def file_rows(table: str, columns: Sequence[Column], rows: str) -> str:
    """SQL from typed rows (a relation) to those of a data file."""
    values = [(_value(table, column), column.name) for column in columns]
    texts = raw_map([*_texts(table, columns)])
    # Few rows have such cells; the two maps are joined only for those.
    raw = (
        "case when _raw is null then _texts when _texts is null then _raw "
        "else map_concat(_raw, _texts) end"
    )
    select = select_list([*values, ("_segment", "_segment"), ("_row", "_row"), (raw, "_raw")])
    return f"select {select} from (select *, {texts} as _texts from {rows})"  # noqa: S608 - quoted


def _value(table: str, column: Column) -> str:
    name = quote_name(column.name)
    kind = conversion(table, column).type
    if kind == "TIMESTAMPTZ":
        return f"case when {_is_readable(name)} then {name} end"
    return f"{name}::varchar" if kind == "JSON" else name


def _is_readable(name: str) -> str:
    return f"{name} between timestamptz '{_FIRST_TIME}' and timestamptz '{_LAST_TIME}'"


def _texts(table: str, columns: Sequence[Column]) -> Iterator[tuple[str, str, str]]:
    """The times that go into `_raw`, as (column name, text, condition) in SQL."""
    for column in columns:
        if conversion(table, column).type == "TIMESTAMPTZ":
            name, text = quote_name(column.name), rendered(table, column, raw=False)
            yield column.name, text, f"{name} is not null and not ({_is_readable(name)})"
