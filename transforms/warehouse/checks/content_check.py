"""Holding what is in a data file, of a warehouse or a lake, against what should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from transforms.duck import Connection, quote_files
from transforms.tables.file_columns import OWN_TYPES, FileColumn, duck_type
from transforms.tables.registry import TableSchema, fold_case
from transforms.warehouse.load.rendering import rendering_problem, table_digests
from transforms.warehouse.manifests.data_files import file_sql, rows_sql
from transforms.warehouse.manifests.receipts import Receipt


def file_types(con: Connection, path: Path) -> Mapping[str, str]:
    """The columns of a data file with DuckDB's types."""
    relation = con.sql(f"select * from {file_sql(quote_files([path]))}")  # noqa: S608 - quoted
    return dict(zip(relation.columns, map(str, relation.types), strict=True))


def types_problem(con: Connection, path: Path, columns: Sequence[FileColumn]) -> str:
    """How a file has other columns than these and our own; "" if not. Case does not count."""
    there = {fold_case(name): kind for name, kind in file_types(con, path).items()}
    expected = {fold_case(c.name): duck_type(c.type) for c in columns} | OWN_TYPES
    others = sorted(set(there.items()) ^ set(expected.items()))
    return f"it has other columns than its table: {others}" if others else ""


def rows_problem(con: Connection, path: Path, receipts: Sequence[Receipt]) -> str:
    """How a file has other rows than its segments, by their number; "" if not."""
    rows = sum(receipt.rows for receipt in receipts)
    ((there,),) = con.execute(f"select count(*) from {file_sql(quote_files([path]))}").fetchall()  # noqa: S608
    return "" if there == rows else f"it has {there} rows, its segments have {rows}"


def csvs_problem(con: Connection, path: Path, receipts: Sequence[Receipt], scratch: Path) -> str:
    """How a file of one table renders to other CSVs than receipts (ascending) say; "" if not.

    Raises `IntegrityError` where it has more rows.
    """

    def source(schema: TableSchema) -> str:
        return rows_sql(schema.table, schema.columns, [path])

    return rendering_problem(table_digests(con, source, receipts, scratch))
