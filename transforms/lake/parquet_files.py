"""The rows of a table over a run of segments as one Parquet file of the lake, proven.

It is the warehouse's data file of the run, which was proven when it was loaded. Of a table of
current state DuckDB writes a file, and before anybody sees that one it is read again: the CSV is
rendered from it alone and held against its receipt (spec 2.8), and its types against those of the
columns.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import duckdb

from transforms.duck import (
    Connection,
    naming_large,
    plain_errors,
    quote_files,
    quote_name,
    working_connection,
)
from transforms.errors import IntegrityError
from transforms.lake.statistics import Statistics, read_statistics
from transforms.memory import rendering_text
from transforms.tables.dialect import select_list
from transforms.tables.file_columns import (
    OWN_COLUMNS,
    OWN_TYPES,
    FileColumn,
    duck_type,
    file_columns,
)
from transforms.tables.registry import Column, TableSchema, fold_case
from transforms.warehouse.load.rendering import table_digests
from transforms.warehouse.manifests.data_files import rows_sql, write_sql
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.manifests.shapes import Shape

RowsQuery = Callable[[Sequence[Column]], str]
"""SQL for the rows of a file with these columns of CSVs."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A proven file of the lake: a table's rows of a run of segments.

    `columns` are those of the CSVs that it has; `statistics` describe it for the log.
    """

    path: Path
    columns: tuple[FileColumn, ...]
    statistics: Statistics


def write_file(
    con: Connection, proof: Connection, rows: RowsQuery, receipt: Receipt, scratch: Path
) -> WrittenFile:
    """Write a table as of the segment of its receipt, and prove it.

    `con` runs the query of the rows, `proof` reads what was written: to open one takes longer than
    a small table. The same rows give the same bytes. Raises `IntegrityError` where the file does
    not render to what the receipt says.
    """
    table, columns = receipt.table, receipt.schema.columns
    path = scratch / f"{table}.parquet"
    with naming_large(f"table {table} as Parquet", scratch):
        row_bytes = receipt.bytes // max(receipt.rows, 1)
        con.execute(write_sql(rows(columns), path, row_bytes, is_unique=False))
    with opened_file(path, scratch, [receipt], proof) as file:
        for _, digest in file.digests():
            if digest != receipt.sha256:
                raise IntegrityError(
                    f"table {table} of segment {receipt.blocks}, written as Parquet, renders to "
                    f"SHA-256 {digest}, its receipt says {receipt.sha256}: nothing of it goes into "
                    "the lake; report it, with the segment"
                )
        file.check_rows()
        return _described(file, table, columns)


def link(data: Path, path: Path) -> None:
    """Let a file be at another path, too: on one file system as one file, else as a copy."""
    try:
        path.hardlink_to(data)
    except OSError:
        shutil.copyfile(data, path)


def linked_file(
    con: Connection, data: Path, table: str, shape: Shape, scratch: Path
) -> WrittenFile:
    """A data file of the warehouse as a file of the lake: the same bytes, proven when loaded.

    On one file system they are one file. Raises `IntegrityError` where a column was retyped, or is
    spelled otherwise, within the file's segments.
    """
    path = scratch / f"{table}.parquet"
    link(data, path)
    with opened_file(path, scratch, (), con) as file:
        return _described(file, table, shape.column_list())


def _described(file: LakeFile, table: str, columns: Sequence[Column]) -> WrittenFile:
    """A file with the columns of these of CSVs. Raises `IntegrityError` where it has others."""
    table_columns = file_columns(table, columns)
    file.check_types(table_columns)
    return WrittenFile(file.path, table_columns, file.statistics(table_columns))


def part_sql(
    table: str, data: Sequence[Path], receipts: Sequence[Receipt], columns: Sequence[Column]
) -> str:
    """SQL for the rows of data files (ascending) in the segments of receipts, in their order."""
    names = [column.name for column in (*file_columns(table, columns), *OWN_COLUMNS)]
    cells = select_list([(quote_name(name), name) for name in names])
    firsts = [receipt.blocks.first for receipt in receipts]
    return (
        f"select {cells} "  # noqa: S608 - quoted
        f"from read_parquet({quote_files(data)}, hive_partitioning = false, union_by_name = true) "
        f"where _segment between {min(firsts)} and {max(firsts)}"
    )


def lake_reader(
    scratch: Path, memory_mb: int, size: int | None = None
) -> AbstractContextManager[Connection]:
    """Open an in-memory DuckDB for files of the lake, where work has `memory_mb` of memory.

    `size` is that of `working_connection`.

    To render a row of many megabytes from Parquet takes a third more than to load it: with half as
    much again, what was loaded can be published.
    """
    return working_connection(scratch, size=size, memory_limit=rendering_text(memory_mb))


@contextmanager
def opened_file(
    path: Path, scratch: Path, receipts: Sequence[Receipt], opened: Connection | int
) -> Iterator[LakeFile]:
    """Open a file of the lake, of whose segments these are the receipts.

    `opened` is what reads it, for who reads many: to open DuckDB takes longer than to read a small
    file; or the MB of memory of a `lake_reader` that is opened now. That it cannot be read is an
    `IntegrityError`.
    """
    with lake_reader(scratch, opened) if isinstance(opened, int) else nullcontext(opened) as con:
        try:
            with plain_errors(scratch):
                yield LakeFile(con, path, scratch, receipts)
        except (duckdb.IOException, duckdb.InvalidInputException, duckdb.BinderException) as error:
            reason = str(error).splitlines()[0]
            raise IntegrityError(f"{path.name} of the lake cannot be read: {reason}") from error


class LakeFile:
    """A file of the lake, read by itself."""

    def __init__(
        self, con: Connection, path: Path, scratch: Path, receipts: Sequence[Receipt]
    ) -> None:
        self._con = con
        self.path = path
        self._source = f"read_parquet({quote_files([path])}, hive_partitioning = false)"
        self._scratch = scratch
        self._receipts = sorted(receipts, key=lambda receipt: receipt.blocks)

    def digests(self) -> Iterator[tuple[Receipt, str]]:
        """Render the CSV of each segment that has a receipt; yields it with the SHA-256.

        Raises `IntegrityError` where a segment has more rows than its receipt says.
        """
        if self._receipts:
            yield from table_digests(self._con, self._rows, self._receipts, self._scratch)

    def _rows(self, schema: TableSchema) -> str:
        return rows_sql(schema.table, schema.columns, [self.path])

    def check_rows(self) -> None:
        """Raise `IntegrityError` where there are rows that no receipt is about."""
        rows, there = sum(receipt.rows for receipt in self._receipts), self.count()
        if there != rows:
            raise IntegrityError(f"{self.path.name} has {there} rows, its segments have {rows}")

    def count(self) -> int:
        """How many rows it has."""
        ((rows,),) = self._con.execute(f"select count(*) from {self._source}").fetchall()  # noqa: S608
        return int(rows)

    def check_types(self, columns: Sequence[FileColumn]) -> None:
        """Raise `IntegrityError` where a column is absent, or of another type than the table's."""
        relation = self._con.sql(f"select * from {self._source}")  # noqa: S608 - quoted
        old_types = dict(zip(relation.columns, map(str, relation.types), strict=True))
        new_types = {column.name: duck_type(column.type) for column in columns} | OWN_TYPES
        newest = {fold_case(name): (name, kind) for name, kind in new_types.items()}
        for name, kind in sorted(old_types.items()):
            other, other_kind = newest.get(fold_case(name), (name, kind))
            if (name, kind) != (other, other_kind):
                raise IntegrityError(
                    f"{self.path.name} of the lake: column {name} is {kind} there, and {other} is "
                    f"{other_kind} in its newest segment: where a column was changed, readers "
                    "would see other values, so nothing is added to this table; publish without "
                    "the lake (STRATA_LAKE=0)"
                )
        if old_types != new_types:
            others = sorted(set(old_types.items()) ^ set(new_types.items()))
            raise IntegrityError(f"{self.path.name} has other columns than its table: {others}")

    def names(self) -> list[str]:
        """The columns that it has, our own among them."""
        return list(self._con.sql(f"select * from {self._source}").columns)  # noqa: S608 - quoted

    def statistics(self, columns: Sequence[FileColumn]) -> Statistics:
        """What the log says of the file."""
        return read_statistics(self._con, self._source, columns)
