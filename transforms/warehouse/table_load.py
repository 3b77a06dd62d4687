"""One table of consecutive segments into a volume: typed, sorted for look-ups, and proven.

The cheap way comes first: type, render the whole, compare. Only where that differs is every cell
tested, and those that no type holds keep their text (DESIGN: typed, and still exact).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import duckdb

from transforms.blocks import BlockRange
from transforms.duck import Connection, quote_name
from transforms.errors import SegmentError
from transforms.segments.names import SegmentName
from transforms.segments.segment_zip import TableFile
from transforms.tables.conform import exact_value, fast_value, raw_cells, rendered
from transforms.tables.dialect import DEFAULT_MAX_LINE_BYTES, copy_sql, read_sql, select_list
from transforms.tables.registry import TableSchema
from transforms.warehouse.proof import ProofError, bare_return, prove_end, proven_body
from transforms.warehouse.receipts import Receipt

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


@dataclass(frozen=True, slots=True)
class _Staged:
    """Rows per file, and the place in the staged table before each file's first row."""

    rows: list[int]
    starts: list[int]


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

        Raises `SegmentError` (with its segment) where a file cannot be read exactly.
        """
        started = time.perf_counter()
        try:
            staged = self._stage(files, exact=False)
            raw: list[dict[str, int]] = [{} for _ in files]
            self._insert(files, staged)
            self._prove(files, staged, raw=False)
        except ProofError:
            self._forget(files)
            staged = self._stage(files, exact=True)
            raw = self._count_raw(len(files))
            self._insert(files, staged)
            self._prove(files, staged, raw=True)
        seconds = time.perf_counter() - started
        total = sum(file.bytes for file in files)
        return [
            Receipt(
                file.segment,
                file.schema,
                rows,
                file.bytes,
                file.sha256,
                cells,
                seconds * file.bytes / total,
            )
            for file, rows, cells in zip(files, staged.rows, raw, strict=True)
        ]

    def _stage(self, files: Sequence[TableFile], *, exact: bool) -> _Staged:
        """Read the files into a temporary table, in order, and count each one's rows."""
        columns = files[0].schema.columns
        value = exact_value if exact else fast_value
        values = [(value(self._table, column), column.name) for column in columns]
        raw = raw_cells(self._table, columns) if exact else "null::map(varchar, varchar)"
        own = [("file_index::bigint", "_file"), ("row_number() over ()", "_place"), (raw, "_raw")]
        select = select_list([*own, *values])
        self._read(files, f"create or replace temp table staged as select {select}")
        counted = self._con.execute(
            "select _file, count(*), min(_place) from staged group by _file"
        ).fetchall()
        rows, starts = [0] * len(files), [0] * len(files)
        for index, count, first in counted:
            rows[index], starts[index] = count, first - 1
        return _Staged(rows, starts)

    def _read(self, files: Sequence[TableFile], statement: str) -> None:
        """Run a statement over the files' text rows; where that fails, name the file at fault."""
        names = files[0].schema.names
        paths = [file.path for file in files]
        largest = max(file.bytes for file in files)
        try:
            try:
                self._con.execute(f"{statement} from {read_sql(paths, names)}")
            except duckdb.InvalidInputException:
                if largest <= DEFAULT_MAX_LINE_BYTES:
                    raise
                # A row may be longer than the reader's default, up to the whole file.
                self._con.execute(f"{statement} from {read_sql(paths, names, largest)}")
        except duckdb.InvalidInputException as error:
            if len(files) == 1:
                raise _unreadable(files[0], error) from error
            for file in files:
                self._read([file], "select count(*)")
            raise

    def _insert(self, files: Sequence[TableFile], staged: _Staged) -> None:
        columns = [quote_name(name) for name in files[0].schema.names]
        firsts = [file.segment.blocks.first for file in files]
        own = [
            (f"({firsts}::bigint[])[_file + 1]", "_segment"),
            (f"_place - ({staged.starts}::bigint[])[_file + 1]", "_row"),
            ("_raw", "_raw"),
        ]
        key = [name for name in SORT_KEYS.get(self._table, ()) if name in files[0].schema.names]
        order = f"order by {', '.join(map(quote_name, key))}" if key else ""
        self._con.execute(
            f"insert into {self._target} by name "  # noqa: S608 - names are quoted
            f"select {', '.join(columns)}, {select_list(own)} from staged {order}"
        )
        self._con.execute("drop table staged")

    def _forget(self, files: Sequence[TableFile]) -> None:
        first, last = files[0].segment.blocks.first, files[-1].segment.blocks.first
        self._con.execute(
            f"delete from {self._target} where _segment between ? and ?",  # noqa: S608
            [first, last],
        )

    def _count_raw(self, files: int) -> list[dict[str, int]]:
        counts: list[dict[str, int]] = [{} for _ in range(files)]
        rows = self._con.execute(
            "select _file, name, count(*) from (select _file, unnest(map_keys(_raw)) as name "
            "from staged where _raw is not null) group by all order by all"
        ).fetchall()
        for index, name, count in rows:
            counts[index][name] = count
        return counts

    def _prove(self, files: Sequence[TableFile], staged: _Staged, *, raw: bool) -> None:
        """Render the files' rows back from the volume and hold them against the sources."""
        blocks = BlockRange(files[0].segment.blocks.first, files[-1].segment.blocks.first)
        query = render_sql(self._target, files[0].schema, blocks, raw=raw)
        path = self._scratch / f"{self._table}.rendered"
        self._con.execute(copy_sql(query, path, header=False))
        with path.open("rb") as stream:
            for file, rows in zip(files, staged.rows, strict=True):
                body = proven_body(file, stream)
                if self._sink is None:
                    for _chunk in body:
                        pass
                else:
                    self._sink.write(file.segment, file.schema, file.schema.header, body, rows)
            prove_end(files[-1], stream)
        path.unlink()


def render_sql(source: str, schema: TableSchema, starts: BlockRange, *, raw: bool) -> str:
    """SQL for a table's CSV text, in source order, of segments whose first block is in `starts`."""
    values = [(rendered(schema.table, column, raw=raw), column.name) for column in schema.columns]
    order = "order by _segment, _row" if schema.table in SORT_KEYS else ""
    return (
        f"select {select_list(values)} from {source} "  # noqa: S608 - names are quoted
        f"where _segment between {starts.first} and {starts.last} {order}"
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
