"""One table of consecutive segments into a data file: typed, in source order, and proven.

The cheap way comes first: type, render the whole, compare. Only where that differs is every cell
tested, and those that do not render back to their text keep it (DESIGN: typed, and still exact).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from pathlib import Path
from typing import Protocol, TypeVar

import duckdb

from transforms.block_range import BlockRange
from transforms.duck import Connection
from transforms.errors import SegmentError
from transforms.segments.segment_name import SegmentName
from transforms.segments.segment_zip import TableFile
from transforms.tables.conform import rendered, typed_rows
from transforms.tables.dialect import copy_sql, read_sql, select_list
from transforms.tables.file_columns import file_rows
from transforms.tables.registry import HISTORY_TABLES, Column, TableSchema
from transforms.warehouse.load.proof import ProofError, bare_return, prove_end, proven_body
from transforms.warehouse.load.raw_cells import row_counts
from transforms.warehouse.load.segment_checks import check_keys_and_heights
from transforms.warehouse.manifests.data_files import empty_sql, rows_sql, write_sql
from transforms.warehouse.manifests.receipts import Receipt

# CSV bytes that are rendered at once, into a file of the scratch.
_PORTION_BYTES = 128 * 10**6
_MAX_MESSAGE = 300


class PartSink(Protocol):
    """Where a table's proven CSV goes while it passes: the parts that are published later."""

    def write(
        self,
        segment: SegmentName,
        schema: TableSchema,
        header: bytes,
        body: Iterable[bytes],
        rows: int,
        scratch: Path,
    ) -> None:
        """Store one table of one segment, all of it or, if `body` raises, nothing.

        Unfinished files may lie in `scratch`.
        """
        ...

    def forget(self, segment: SegmentName) -> None:
        """Keep nothing of a segment: it is refused, and was not loaded."""
        ...


TypedRows = tuple[Sequence[Column], str]
"""The columns of CSVs, and SQL for their typed rows."""


@dataclass(frozen=True, slots=True)
class FileTarget:
    """A new data file."""

    table: str
    path: Path

    def write(self, groups: Sequence[TypedRows], row_bytes: int, *, exact: bool) -> str:
        """The statement that writes rows, in this order, in the place of what was there.

        A row has about `row_bytes`; each cell was tested if they are `exact`.
        """
        queries = (
            file_rows(self.table, columns, f"({query})", exact=exact) for columns, query in groups
        )
        return write_sql(_joined(queries), self.path, row_bytes)

    def create(self, con: Connection, schema: TableSchema) -> None:
        """Make what a table without rows has: a run has no data file of it."""

    def source(self, columns: Sequence[Column]) -> str:
        """SQL for what was written, as a relation with these columns and our own."""
        return rows_sql(self.table, columns, [self.path] if self.path.exists() else [])


@dataclass(frozen=True, slots=True)
class TableTarget:
    """A table of an attached DuckDB file; `name` is SQL. See `FileTarget` for what it does."""

    name: str

    def write(self, groups: Sequence[TypedRows], row_bytes: int, *, exact: bool) -> str:  # noqa: ARG002
        """See `FileTarget.write`."""
        return f"create or replace table {self.name} as {_joined(query for _, query in groups)}"

    def create(self, con: Connection, schema: TableSchema) -> None:
        """Make the table without rows."""
        con.execute(f"create table {self.name} as {empty_sql(schema.table, schema.columns)}")

    def source(self, columns: Sequence[Column]) -> str:  # noqa: ARG002
        """SQL for what was written."""
        return self.name


def _joined(queries: Iterable[str]) -> str:
    """SQL for the rows of queries one after the other, by the names of their columns."""
    return " union all by name ".join(f"({query})" for query in queries)


class TableLoader:
    """Loads one table's files into a target.

    Unfinished files go below `scratch`; `sink` takes the proven CSV (None: nobody wants it).
    """

    def __init__(
        self,
        con: Connection,
        target: FileTarget | TableTarget,
        scratch: Path,
        sink: PartSink | None,
        table: str,
    ) -> None:
        self._con = con
        self._target = target
        self._scratch = scratch
        self._sink = sink
        self._table = table

    def load(self, files: Sequence[TableFile]) -> list[Receipt]:
        """Load files, ascending by block; returns a receipt per file.

        Raises `SegmentError` (with its segment) where a file cannot be read exactly, or its rows
        are not fit to be published.
        """
        has_rows = any(file.bytes > file.header_bytes for file in files)
        raw = self._loaded(files) if has_rows else self._created(files)
        receipts = [
            Receipt(file.segment, file.schema, file.rows, file.bytes, file.sha256, cells)
            for file, cells in zip(files, raw, strict=True)
        ]
        if self._table in HISTORY_TABLES:
            for schema, alike in groupby(receipts, key=lambda receipt: receipt.schema):
                source = self._target.source(schema.columns)
                check_keys_and_heights(self._con, source, [*alike])
        return receipts

    def _loaded(self, files: Sequence[TableFile]) -> list[dict[str, int]]:
        """Write and prove rows of files; of each, how many cells of which columns do not fit."""
        groups = [[*alike] for _, alike in groupby(files, key=lambda file: file.schema)]
        try:
            self._write(groups, exact=False)
            return self._proven(groups)
        except (duckdb.DataError, ProofError):
            self._write(groups, exact=True)
            return self._proven(groups)

    def _created(self, files: Sequence[TableFile]) -> list[dict[str, int]]:
        """The same of files that are nothing but a header: DuckDB is asked for no rows."""
        self._target.create(self._con, files[0].schema)
        if self._sink is not None:
            for file in files:
                header = file.schema.header
                self._sink.write(file.segment, file.schema, header, (), 0, self._scratch)
        return [{} for _ in files]

    def _write(self, groups: Sequence[Sequence[TableFile]], *, exact: bool) -> None:
        """Read and type the rows of all files and write them, in one statement.

        Raises `DataError` where a text is none of its type, unless `exact`, `SegmentError` where a
        file cannot be read.
        """
        rows = [self._typed(files, exact=exact) for files in groups]
        files = [file for group in groups for file in group]
        row_bytes = sum(file.bytes for file in files) // max(sum(file.rows for file in files), 1)
        try:
            self._con.execute(self._target.write(rows, row_bytes, exact=exact))
        except duckdb.InvalidInputException as error:
            bad = [file for file in files if f"file = {file.path}\n" in str(error)] or files
            if len(bad) > 1:
                raise
            raise _unreadable(bad[0], error) from error

    def _typed(self, files: Sequence[TableFile], *, exact: bool) -> TypedRows:
        """The typed rows of files of one schema, with their segments and places."""
        schema = files[0].schema
        firsts = [file.segment.blocks.first for file in files]
        starts = [0, *accumulate(file.rows for file in files)][:-1]
        own = [
            (f"({firsts}::bigint[])[file_index::bigint + 1]", "_segment"),
            (f"row_number() over () - ({starts}::bigint[])[file_index::bigint + 1]", "_row"),
        ]
        rows = read_sql(
            [file.path for file in files], schema.names, max(file.longest_row for file in files)
        )
        return schema.columns, typed_rows(self._table, schema.columns, rows, own, exact=exact)

    def _proven(self, groups: Sequence[Sequence[TableFile]]) -> list[dict[str, int]]:
        """Prove what was written; of each file, how many cells of which columns do not fit."""
        parts = (some for files in groups for some in portions(files))
        return [cells for some in parts for cells in self._prove(some)]

    def _prove(self, files: Sequence[TableFile]) -> list[dict[str, int]]:
        """Render files' rows back and hold them against the sources; see `_proven`."""
        schema = files[0].schema
        between = f"_segment between {_start(files[0])} and {_start(files[-1])}"
        rows = f"{self._target.source(schema.columns)} where {between}"
        counts = row_counts(self._con, schema, rows)
        self._compare(files, raw=any(count.has_texts for count in counts.values()))
        for file in files:
            if not counts[_start(file)].are_numbered(file.rows):
                raise SegmentError(
                    f"{file.segment.file_name}: table {file.table} has {file.rows} rows by its "
                    "line feeds, but others were read: report it, with the segment",
                    file.segment.file_name,
                )
        return [counts[_start(file)].raw_cells for file in files]

    def _compare(self, files: Sequence[TableFile], *, raw: bool) -> None:
        """Render the files' rows as text and hold them against the sources, byte for byte."""
        schema = files[0].schema
        starts = BlockRange(_start(files[0]), _start(files[-1]))
        query = render_sql(self._target.source(schema.columns), schema, starts, raw=raw)
        path = self._scratch / f"{self._table}.rendered"
        self._con.execute(copy_sql(query, path, header=False))
        with path.open("rb") as stream:
            for file in files:
                body = proven_body(file, stream)
                if self._sink is None:
                    for _chunk in body:
                        pass
                else:
                    header = file.schema.header
                    self._sink.write(
                        file.segment, file.schema, header, body, file.rows, self._scratch
                    )
            prove_end(files[-1], stream)
        path.unlink()


_Csv = TypeVar("_Csv", TableFile, Receipt)


def portions(items: Iterable[_Csv]) -> Iterator[list[_Csv]]:
    """Consecutive CSVs, as many as are rendered at once."""
    portion: list[_Csv] = []
    size = 0
    for item in items:
        if portion and size + item.bytes > _PORTION_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(item)
        size += item.bytes
    if portion:
        yield portion


def _start(file: TableFile) -> int:
    """The first block of a file's segment."""
    return file.segment.blocks.first


def render_sql(source: str, schema: TableSchema, starts: BlockRange, *, raw: bool) -> str:
    """SQL for a table's CSV text of segments whose first block is in `starts`.

    `source` is SQL for its rows, which lie in the order of the CSVs.
    """
    values = [(rendered(schema.table, column, raw=raw), column.name) for column in schema.columns]
    return (
        f"select {select_list(values)} from {source} "  # noqa: S608 - names are quoted
        f"where _segment between {starts.first} and {starts.last}"
    )


def _unreadable(file: TableFile, error: duckdb.Error) -> SegmentError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    noise = ("Original Line", "Possible fix", "*")
    useful = [line for line in lines if not line.startswith(noise)]
    problem = "; ".join(useful[:2])[:_MAX_MESSAGE].removeprefix("Invalid Input Error: ")
    if "Line:" not in problem and (bare := bare_return(file)):
        problem = f"row {bare[0]}, column {bare[1]} holds a carriage return outside quotes"
    return SegmentError(
        f"{file.segment.file_name}: table {file.table} is not CSV with "
        f"{len(file.schema.columns)} columns: {problem}",
        file.segment.file_name,
    )
