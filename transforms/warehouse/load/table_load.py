"""One table of consecutive segments into a data file: typed, in source order, and proven.

The cheap way comes first: type what can be typed, render the whole, compare. Only where that
differs is every cell tested, and those that do not render back to their text keep it (DESIGN:
typed, and still exact).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from pathlib import Path
from typing import Protocol

import duckdb

from transforms.duck import Connection
from transforms.errors import SegmentError
from transforms.segments.segment_zip import TableFile
from transforms.tables.conform import typed_rows
from transforms.tables.dialect import read_sql
from transforms.tables.file_columns import file_rows
from transforms.tables.registry import HISTORY_TABLES, Column
from transforms.warehouse.load.proof import ProofError, proven_body
from transforms.warehouse.load.row_text import row_text
from transforms.warehouse.load.segment_checks import check_keys_and_heights, raw_cells, row_numbers
from transforms.warehouse.manifests.data_files import empty_sql, rows_sql, write_sql
from transforms.warehouse.manifests.receipts import Receipt

_MAX_MESSAGE = 300


class PartSink(Protocol):
    """Where a table's proven CSV goes while it passes: the parts that are published later.

    Those that are nothing but a header do not: whoever publishes makes them of their receipts.
    """

    def write(self, csv: TableFile, body: Iterable[bytes], scratch: Path) -> None:
        """Store a header and its body, all of it or, if `body` raises, nothing.

        Unfinished files may lie in `scratch`.
        """
        ...


@dataclass(frozen=True, slots=True)
class TableLoad:
    """One table on its way into `place`: a new data file or, by its name in SQL, a state's table.

    Unfinished files go below `scratch`; `sink` takes the proven CSV (None: nobody wants it).
    """

    con: Connection
    table: str
    place: Path | str
    scratch: Path
    sink: PartSink | None

    def load(self, files: Sequence[TableFile]) -> list[Receipt]:
        """Load files, ascending by block; returns a receipt per file.

        Raises `SegmentError` where a file cannot be read exactly, or its rows are not fit to be
        published. Of several files it may name a wrong one.
        """
        groups = [[*alike] for _, alike in groupby(files, key=lambda file: file.schema)]
        if all(file.is_empty for file in files):  # of which a run has no data file
            if isinstance(self.place, str):
                self.con.execute(f"create table {self.place} as {self._rows(files, exact=False)}")
            receipts = [[_receipt(file, {}) for file in alike] for alike in groups]
        else:
            try:
                receipts = self._written(groups, exact=False)
            except ProofError:
                receipts = self._written(groups, exact=True)
        if self.table in HISTORY_TABLES:
            for alike in receipts:
                check_keys_and_heights(self.con, self._source(alike[0].schema.columns), alike)
        return [receipt for alike in receipts for receipt in alike]

    def _written(
        self, groups: Sequence[Sequence[TableFile]], *, exact: bool
    ) -> list[list[Receipt]]:
        """Read and type the rows of all files and write them, in one statement, then prove them.

        The files are grouped by their schemas. Unless `exact`, a text that is another one of its
        value raises `ProofError`. Raises `SegmentError` where a file cannot be read.
        """
        files = [file for alike in groups for file in alike]
        rows = " union all by name ".join(f"({self._rows(alike, exact=exact)})" for alike in groups)
        try:
            if isinstance(self.place, str):
                self.con.execute(f"create or replace table {self.place} as {rows}")
            else:
                row_bytes = sum(f.bytes for f in files) // max(sum(f.rows for f in files), 1)
                self.con.execute(write_sql(rows, self.place, row_bytes))
        except duckdb.InvalidInputException as error:
            raise _unreadable(files[0], error) from error
        return [self._prove(alike) for alike in groups]

    def _rows(self, files: Sequence[TableFile], *, exact: bool) -> str:
        """SQL for the typed rows of files of one schema, with their segments and places."""
        columns = files[0].schema.columns
        files = [file for file in files if not file.is_empty]
        rows = f"from {empty_sql(self.table, columns)}"
        if files:
            rows = self._typed(files, exact=exact)
        if isinstance(self.place, str):
            return rows
        return file_rows(self.table, columns, f"({rows})")

    def _typed(self, files: Sequence[TableFile], *, exact: bool) -> str:
        """SQL for the rows of files of one schema as DuckDB's types, see `_rows`."""
        firsts = [file.segment.blocks.first for file in files]
        starts = [0, *accumulate(file.rows for file in files)][:-1]
        own = [
            (f"({firsts}::bigint[])[file_index::bigint + 1]", "_segment"),
            (f"row_number() over () - ({starts}::bigint[])[file_index::bigint + 1]", "_row"),
        ]
        longest = max(file.longest_row for file in files)
        schema = files[0].schema
        texts = read_sql([file.path for file in files], schema.names, longest)
        return typed_rows(self.table, schema.columns, texts, own, exact=exact)

    def _source(self, columns: Sequence[Column]) -> str:
        """SQL for what was written, as a relation with these columns and our own."""
        if isinstance(self.place, str):
            return self.place
        return rows_sql(self.table, columns, [self.place] if self.place.exists() else [])

    def _prove(self, files: Sequence[TableFile]) -> list[Receipt]:
        """Render the rows of files of one schema and hold them against the sources."""
        schema = files[0].schema
        first, last = (file.segment.blocks.first for file in (files[0], files[-1]))
        rows = f"{self._source(schema.columns)} where _segment between {first} and {last}"
        numbers = row_numbers(self.con, rows)
        raw = any(texts for *_, texts in numbers.values())
        cells = raw_cells(self.con, rows) if raw else defaultdict(dict)
        with row_text(self.con, rows, schema, raw=raw) as text:
            for file in (file for file in files if not file.is_empty):
                body = proven_body(file, text)
                if self.sink is None:
                    deque(body, maxlen=0)  # to its end, which proves it
                else:
                    self.sink.write(file, body, self.scratch)
        for file in files:
            places = numbers.get(file.segment.blocks.first, [0, 1, 0])[:3]
            if places != [file.rows, 1, file.rows]:
                raise SegmentError(
                    f"{file.segment.file_name}: table {file.table} has {file.rows} rows by its "
                    "line feeds, but others were read: report it, with the segment"
                )
        return [_receipt(file, cells[file.segment.blocks.first]) for file in files]


def _receipt(file: TableFile, raw_cells: Mapping[str, int]) -> Receipt:
    return Receipt(file.segment, file.schema, file.rows, file.bytes, file.sha256, raw_cells)


def _unreadable(file: TableFile, error: duckdb.Error) -> SegmentError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    noise = ("Original Line", "Possible fix", "*")
    useful = [line for line in lines if not line.startswith(noise)]
    problem = "; ".join(useful[:2])[:_MAX_MESSAGE].removeprefix("Invalid Input Error: ")
    return SegmentError(
        f"{file.segment.file_name}: table {file.table} is not CSV with "
        f"{len(file.schema.columns)} columns: {problem}"
    )
