"""One table of consecutive segments into a volume: typed, sorted for look-ups, and proven.

The cheap way comes first: type, keep the text of cells that no type reads, render the whole,
compare. Only where that differs is every cell tested, and those that do not render back to their
text keep it too (DESIGN: typed, and still exact).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Protocol

import duckdb

from transforms.block_range import BlockRange
from transforms.duck import Connection, quote_name
from transforms.errors import SegmentError
from transforms.segments.segment_name import SegmentName
from transforms.segments.segment_zip import TableFile
from transforms.tables.conform import rendered, typed_rows
from transforms.tables.dialect import copy_sql, read_sql, select_list
from transforms.tables.registry import HISTORY_TABLES, TableSchema
from transforms.warehouse.proof import ProofError, bare_return, prove_end, proven_body
from transforms.warehouse.receipts import Receipt
from transforms.warehouse.segment_checks import check_keys_and_heights

SORT_KEYS = {
    "orders": ("id", "vega_time", "seq_num"),
    "withdrawals": ("party_id", "id", "vega_time"),
    "liquidity_provisions": ("market_id", "party_id", "id", "vega_time"),
}
"""What the read API looks rows up by; the other tables stay in their source's order."""

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
    ) -> None:
        """Store one table of one segment, all of it or, if `body` raises, nothing."""
        ...

    def forget(self, segment: SegmentName) -> None:
        """Keep nothing of a segment: it is refused, and was not loaded."""
        ...


class TableLoader:
    """Loads one table's files of one schema into an attached volume.

    `con` has the volume attached as `volume`; unfinished files go below `scratch`; `sink` takes the
    proven CSV (None: nobody wants it).
    """

    def __init__(
        self, con: Connection, volume: str, scratch: Path, sink: PartSink | None, table: str
    ) -> None:
        self._con = con
        self._target = f"{quote_name(volume)}.main.{quote_name(table)}"
        self._scratch = scratch
        self._sink = sink
        self._table = table

    def load(self, files: Sequence[TableFile]) -> list[Receipt]:
        """Load files that share one schema, ascending by block; returns a receipt per file.

        Raises `SegmentError` (with its segment) where a file cannot be read exactly, or its rows
        are not fit to be published.
        """
        started = time.perf_counter()
        try:
            raw = self._insert_proven(files, exact=False)
        except ProofError:
            self._forget(files)
            raw = self._insert_proven(files, exact=True)
        seconds = time.perf_counter() - started
        total = sum(file.bytes for file in files)
        receipts = [
            Receipt(
                file.segment,
                file.schema,
                file.rows,
                file.bytes,
                file.sha256,
                cells,
                seconds * file.bytes / total,
            )
            for file, cells in zip(files, raw, strict=True)
        ]
        if self._table in HISTORY_TABLES:
            check_keys_and_heights(self._con, self._target, receipts)
        return receipts

    def _insert_proven(self, files: Sequence[TableFile], *, exact: bool) -> list[dict[str, int]]:
        """Load and prove files; returns of each how many cells of which columns are in `_raw`."""
        self._insert(files, exact=exact)
        numbered = self._con.execute(
            "select _segment, count(*), min(_row), max(_row), count(_raw) "  # noqa: S608 - quoted
            f"from {self._target} where {_between(_starts(files))} group by 1"
        ).fetchall()
        raw = self._count_raw(files) if any(row[-1] for row in numbered) else [{} for _ in files]
        self._prove(files, raw=any(raw))
        _check_rows(files, {first: tuple(numbers) for first, *numbers, _ in numbered})
        return raw

    def _insert(self, files: Sequence[TableFile], *, exact: bool) -> None:
        """Read, type and sort the files' rows into the volume, in one statement."""
        schema = files[0].schema
        firsts = [file.segment.blocks.first for file in files]
        starts = [0, *accumulate(file.rows for file in files)][:-1]
        own = [
            (f"({firsts}::bigint[])[file_index::bigint + 1]", "_segment"),
            (f"row_number() over () - ({starts}::bigint[])[file_index::bigint + 1]", "_row"),
        ]
        order = sort_sql(self._table, schema.names)

        def statement(rows: str) -> str:
            typed = typed_rows(self._table, schema.columns, rows, own, exact=exact)
            return f"insert into {self._target} by name {typed} {order}"

        self._read(files, statement)

    def _read(self, files: Sequence[TableFile], statement: Callable[[str], str]) -> None:
        """Run a statement over the files' text rows; where that fails, name the file at fault."""
        paths = [file.path for file in files]
        longest = max(file.longest_row for file in files)
        try:
            self._con.execute(statement(read_sql(paths, files[0].schema.names, longest)))
        except duckdb.InvalidInputException as error:
            if len(files) == 1:
                raise _unreadable(files[0], error) from error
            for file in files:
                self._read([file], lambda rows: f"select count(*) from {rows}")  # noqa: S608
            raise

    def _forget(self, files: Sequence[TableFile]) -> None:
        self._con.execute(f"delete from {self._target} where {_between(_starts(files))}")  # noqa: S608

    def _count_raw(self, files: Sequence[TableFile]) -> list[dict[str, int]]:
        counts: dict[int, dict[str, int]] = {file.segment.blocks.first: {} for file in files}
        names = f"select _segment, unnest(map_keys(_raw)) as name from {self._target}"  # noqa: S608
        rows = self._con.execute(
            f"select _segment, name, count(*) from ({names} where {_between(_starts(files))} "  # noqa: S608
            "and _raw is not null) group by all order by all"
        ).fetchall()
        for first, name, count in rows:
            counts[first][name] = count
        return [*counts.values()]

    def _prove(self, files: Sequence[TableFile], *, raw: bool) -> None:
        """Render the files' rows back from the volume and hold them against the sources."""
        query = render_sql(self._target, files[0].schema, _starts(files), raw=raw)
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
                    self._sink.write(file.segment, file.schema, header, body, file.rows)
            prove_end(files[-1], stream)
        path.unlink()


def sort_sql(table: str, columns: Collection[str]) -> str:
    """The `order by` of a table with these columns: of rows with one key the newest comes last."""
    key = [name for name in SORT_KEYS.get(table, ()) if name in columns]
    return f"order by {', '.join(map(quote_name, [*key, '_segment', '_row']))}" if key else ""


def _check_rows(files: Sequence[TableFile], numberings: Mapping[int, tuple[int, ...]]) -> None:
    """Raise `SegmentError` where the rows of a file are not numbered from 1, one by one.

    `numberings` has, by the first block, their count, the least and the greatest number.
    """
    for file in files:
        numbering = (file.rows, 1, file.rows) if file.rows else None
        if numberings.get(file.segment.blocks.first) != numbering:
            raise SegmentError(
                f"{file.segment.file_name}: table {file.table} has {file.rows} rows by its line "
                "feeds, but others were read: report it, with the segment",
                file.segment.file_name,
            )


def _starts(files: Sequence[TableFile]) -> BlockRange:
    """From the first block of the first of consecutive files to that of the last."""
    return BlockRange(files[0].segment.blocks.first, files[-1].segment.blocks.first)


def _between(starts: BlockRange) -> str:
    """SQL for the rows of the segments that begin there."""
    return f"_segment between {starts.first} and {starts.last}"


def render_sql(
    source: str, schema: TableSchema, starts: BlockRange, *, raw: bool, is_ordered: bool = False
) -> str:
    """SQL for a table's CSV text, in source order, of segments whose first block is in `starts`.

    `is_ordered` says that the rows lie in that order already.
    """
    values = [(rendered(schema.table, column, raw=raw), column.name) for column in schema.columns]
    order = "order by _segment, _row" if schema.table in SORT_KEYS and not is_ordered else ""
    return (
        f"select {select_list(values)} from {source} "  # noqa: S608 - names are quoted
        f"where {_between(starts)} {order}"
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
