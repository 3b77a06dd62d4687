"""Rows become CSV text by PostgreSQL's rules (spec 2.8), a whole column at a time.

Cells hold plain values: ids as hex, times as microseconds since 1970 (UTC), amounts as integers,
everything with a scale of its own as its final text; None is NULL. The rows of one table name the
same cells; a column that they do not name is NULL, a cell that is no column is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import polars as pl

from transforms.tables.registry import Column, KnownTable

Cell = str | int | bool | float | None
Row = Mapping[str, Cell]

_TIME = "timestamp with time zone"
_WHOLE = ("smallint", "integer", "bigint")
# Amounts may have more digits than any integer type of polars, so they are text at once.
_DIGITS = ("hugeint", "numeric", "double precision")
_QUOTABLE = ("text", "jsonb", "bytea[]", "text[]", "character varying", "character varying(32)")
_NEEDS_QUOTES = '[,"\r\n]'


def csv_lines(table: KnownTable, rows: Sequence[Row]) -> bytes:
    """The rows of a table, sorted by its key, as CSV lines without a header."""
    if not rows:
        return b""
    columns = table.schema.columns
    frame = pl.DataFrame([_series(column, rows) for column in columns]).sort(table.key)
    texts = [_text(column).fill_null("") for column in columns]
    lines = frame.select(pl.concat_str(texts, separator=",").str.join("\n")).item()
    return f"{lines}\n".encode()


def _series(column: Column, rows: Sequence[Row]) -> pl.Series:
    name = column.name
    values: list[Cell] = [row[name] for row in rows] if name in rows[0] else [None] * len(rows)
    if column.type == _TIME or column.type in _WHOLE:
        return pl.Series(name, values, pl.Int64)
    if column.type == "boolean":
        return pl.Series(name, values, pl.Boolean)
    if column.type in _DIGITS:
        values = [value if value is None else str(value) for value in values]
    return pl.Series(name, values, pl.String)


def _text(column: Column) -> pl.Expr:
    value = pl.col(column.name)
    if column.type == _TIME:
        text = value.cast(pl.Datetime("us")).dt.strftime("%Y-%m-%d %H:%M:%S%.6f")
        return text.str.strip_chars_end("0").str.strip_chars_end(".") + "+00"
    if column.type == "boolean":
        return value.replace_strict({True: "t", False: "f"}, return_dtype=pl.String)
    if column.type == "bytea":
        return pl.lit("\\x") + value
    if column.type in _QUOTABLE:
        doubled = value.str.replace_all('"', '""', literal=True)
        needs_quotes = value.str.contains(_NEEDS_QUOTES) | (value == "")
        return pl.when(needs_quotes).then('"' + doubled + '"').otherwise(value)
    return value.cast(pl.String)


def jsonb(value: object) -> str:
    """The text of a jsonb value as PostgreSQL prints it: keys by length, then by bytes."""
    return json.dumps(_ordered(value), ensure_ascii=False)


def _ordered(value: object) -> object:
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
        return {key: _ordered(value[key]) for key in keys}
    if isinstance(value, list):
        return [_ordered(item) for item in value]
    return value
