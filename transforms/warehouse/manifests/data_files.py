"""Data files: the rows of a table over a run of segments as Parquet, in the order of the CSVs.

A current state is one DuckDB file with all its tables instead.

Columns are those of `transforms.tables.file_columns`. What other code reads of a file looks like
the CSV's own columns with DuckDB's types, then `_segment`, `_row` and `_raw`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from uuid import uuid4

from transforms.block_range import BlockRange
from transforms.duck import Connection, quote_files, quote_name, quote_text
from transforms.tables.conform import conversion
from transforms.tables.dialect import select_list
from transforms.tables.file_columns import OWN_TYPES, duck_type, file_columns
from transforms.tables.registry import Column, fold_case

FOLDER = "data"

ALL_TABLES = "*"
"""What the file of a current state is listed by, in the place of a table's name."""

# Version 2 as DuckDB writes it packs integers in runs of 256, in which Rust's Parquet library, and
# so Daft, delta-rs and DataFusion, cannot skip rows (apache/arrow-rs, issue 11018).
# Higher levels of zstd take longer, and what they save of such columns is within a hundredth.
_OPTIONS = "format parquet, parquet_version v1, compression zstd, compression_level 1"
# A row group is in memory until it is whole: rows of jsonb can have megabytes each.
_GROUP_BYTES = 64 * 2**20
_VECTOR_ROWS, _MOST_ROWS = 2048, 122_880
# A dictionary of more values than a tenth of the rows takes time and saves nothing.
_ROWS_A_VALUE = 10
_OWN = [(name, name) for name in OWN_TYPES]


def data_key(table: str, blocks: BlockRange, sha256: str) -> str:
    """Where a data file, or the file of a state, lies in a warehouse."""
    if table == ALL_TABLES:
        return f"state/{blocks.key}.{sha256}.duckdb"
    return f"{FOLDER}/{table}/{blocks.key}.{sha256}.parquet"


def write_sql(query: str, path: Path, row_bytes: int, *, is_unique: bool = True) -> str:
    """SQL that writes a query of columns of files as a data file; a row has about `row_bytes`.

    Unless `is_unique`, the same rows give the same bytes.
    """
    rows = _GROUP_BYTES // max(row_bytes, 1) // _VECTOR_ROWS * _VECTOR_ROWS
    group = min(max(rows, _VECTOR_ROWS), _MOST_ROWS)
    # Each file is one of its kind: a sweep that removes an old one never takes a new one with it.
    unique = f", kv_metadata {{strata: '{uuid4().hex}'}}" if is_unique else ""
    sizes = f"row_group_size {group}, dictionary_size_limit {group // _ROWS_A_VALUE}"
    return f"copy ({query}) to {quote_text(path)} ({_OPTIONS}, {sizes}{unique})"


def file_sql(files: str) -> str:
    """SQL for data files of equal columns as they lie there; `files` is SQL for their list."""
    return f"read_parquet({files}, hive_partitioning = false)"


def joined_sql(
    con: Connection, table: str, columns: Sequence[Column], files: Sequence[Path]
) -> str:
    """SQL for the rows of data files (ascending) as they lie there, with these columns of CSVs.

    A column that none of them has is NULL: segments without rows have no file.
    """
    # Not `union all`: DuckDB 2.0 writes its parts in another order to Parquet.
    source = f"read_parquet({quote_files(files)}, hive_partitioning = false, union_by_name = true)"
    there = {fold_case(name) for name in con.sql(f"from {source}").columns}
    cells = [
        (quote_name(c.name) if fold_case(c.name) in there else f"null::{duck_type(c.type)}", c.name)
        for c in file_columns(table, columns)
    ]
    return f"select {select_list([*cells, *_OWN])} from {source}"  # noqa: S608 - quoted


def rows_sql(table: str, columns: Iterable[Column], files: Sequence[Path] | str) -> str:
    """SQL for the rows of data files, or of files of state, as a relation with columns of CSVs.

    `files` are files that all have the columns, or SQL for a list of data files; none have no rows.
    """
    if not files:
        return empty_sql(table, columns)
    if not isinstance(files, str) and files[0].suffix == ".duckdb":
        return state_sql(table, quote_files(files))
    source = file_sql(files if isinstance(files, str) else quote_files(files))
    values = [(_value(table, column), column.name) for column in columns]
    return f"(select {select_list([*values, *_OWN])} from {source})"  # noqa: S608 - quoted


def state_sql(table: str, files: str) -> str:
    """SQL for the rows of a table in files of current state; `files` is SQL for their list."""
    # Views that have the name of a table lie in other schemas.
    return (
        f"read_duckdb({files}, hive_partitioning = false, schema_name = 'main', "
        f"table_name = {quote_text(table)})"
    )


def empty_sql(table: str, columns: Iterable[Column]) -> str:
    """SQL for no rows with these columns of a CSV."""
    kinds = {column.name: conversion(table, column).type for column in columns} | OWN_TYPES
    values = select_list([(f"null::{kind}", name) for name, kind in kinds.items()])
    return f"(select {values} where false)"


def _value(table: str, column: Column) -> str:
    """SQL for a column of a CSV: JSON is text in the file."""
    name = quote_name(column.name)
    return f"{name}::json" if conversion(table, column).type == "JSON" else name
