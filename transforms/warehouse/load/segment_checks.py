"""What must be true of a segment's rows before it is in the warehouse: places, keys and heights.

Whatever is loaded may be published, so all that speaks against a segment is said here or earlier.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from transforms.duck import Connection, quote_name, quote_text
from transforms.errors import SegmentError
from transforms.tables.conform import rendered
from transforms.tables.registry import primary_key
from transforms.warehouse.manifests.data_files import rows_sql
from transforms.warehouse.manifests.receipts import Receipt

_TIME = "vega_time"
"""The column with the time of a row's block."""


def row_numbers(con: Connection, rows: str) -> dict[int, list[int]]:
    """Count rows (SQL, with its condition) by first block.

    Of each segment with any: how many, their least and greatest place, how many keep texts.
    """
    query = "select _segment, count(*), min(_row), max(_row), count(_raw)"
    counts = con.execute(f"{query} from {rows} group by 1").fetchall()
    return {first: numbers for first, *numbers in counts}


def raw_cells(con: Connection, rows: str) -> defaultdict[int, dict[str, int]]:
    """Count the cells of rows (see `row_numbers`) whose text is in `_raw`, by block and column."""
    query = (
        "select _segment, name, count(*) from (select _segment, unnest(map_keys(_raw)) as name "  # noqa: S608 - quoted
        f"from {rows} and _raw is not null) group by all order by all"
    )
    cells = defaultdict[int, dict[str, int]](dict)
    for first, name, count in con.execute(query).fetchall():
        cells[first][name] = count
    return cells


def foreign_rows(
    con: Connection, data: Mapping[str, Path], receipts: Sequence[Receipt]
) -> defaultdict[int, dict[str, int]]:
    """Count rows whose time belongs to no block of their segment, by first block and table.

    `data` are data files of history by table. Times are compared as the CSVs write them. Segments
    whose rows or blocks have no column of times are left out.
    """
    columns = {r.table: c for r in receipts for c in r.schema.columns if c.name == _TIME}
    times = {
        table: f"select {quote_text(table)} as name, _segment, "  # noqa: S608 - quoted
        f"{rendered(table, columns[table], raw=True)} as time "
        f"from {rows_sql(table, [columns[table]], [path])}"
        for table, path in data.items()
        if table in columns
    }
    counts = defaultdict[int, dict[str, int]](dict)
    if "blocks" not in times:
        return counts
    query = (
        f"select _segment, name, count(*) from ({' union all '.join(times.values())}) "  # noqa: S608 - quoted
        f"anti join ({times['blocks']}) using (_segment, time) group by all order by all"
    )
    timed = {(r.blocks.first, r.table) for r in receipts if _TIME in r.schema.names}
    for first, table, count in con.execute(query).fetchall():
        if {(first, table), (first, "blocks")} <= timed:
            counts[first][table] = count
    return counts


def check_keys_and_heights(con: Connection, source: str, receipts: Sequence[Receipt]) -> None:
    """Check the rows of one history table in consecutive segments, which share their columns.

    `source` is the table of the unfinished volume, in SQL. Raises `SegmentError` for the first
    segment that is at fault.
    """
    if receipts[0].table == "blocks":
        _check_heights(con, source, receipts)
    # Two schema versions may have the same columns and other keys.
    for key, group in groupby(receipts, key=_key):
        alike = [*group]
        if key and any(receipt.rows for receipt in alike):
            _check_keys(con, source, key, alike)


def _key(receipt: Receipt) -> tuple[str, ...]:
    key = primary_key(receipt.table, receipt.segment.version)
    return key if set(key) <= set(receipt.schema.names) else ()


def _check_keys(
    con: Connection, source: str, key: Sequence[str], receipts: Sequence[Receipt]
) -> None:
    """Raise `SegmentError` where several rows of one segment have the same primary key.

    A key that several segments have is a row that was written again: the format allows it.
    """
    columns = ", ".join(map(quote_name, key))
    # Cells that no type holds are NULL here and distinguished by their text.
    raw_columns = {name for receipt in receipts for name in receipt.raw_cells}
    texts = {name: f"_raw[{quote_text(name)}]" for name in key if name in raw_columns}
    # As text: Python has no such times as DuckDB's infinity.
    shown = ", ".join(
        f"coalesce({texts.get(name, 'null')}, {quote_name(name)}::varchar)" for name in key
    )
    repeated = con.execute(
        f"select _segment, {shown} from {source} "  # noqa: S608 - quoted
        f"where _segment between {receipts[0].blocks.first} and {receipts[-1].blocks.first} "
        f"group by {', '.join(['_segment', columns, *texts.values()])} having count(*) > 1 "
        f"order by _segment, {columns} limit 1"
    ).fetchall()
    if repeated:
        first, *cells = repeated[0]
        (segment,) = (item.segment for item in receipts if item.blocks.first == first)
        label = ", ".join(f"{name} {cell}" for name, cell in zip(key, cells, strict=True))
        raise SegmentError(f"{segment}: {receipts[0].table} has several rows for {label}")


def _check_heights(con: Connection, source: str, receipts: Sequence[Receipt]) -> None:
    """Raise `SegmentError` where `blocks` has not every height of a segment once, and no other."""
    height = "height" if "height" in receipts[0].schema.names else "null"
    rows = con.execute(
        f"select _segment, count(*), count(distinct {height}), min({height}), max({height}) "  # noqa: S608 - quoted
        f"from {source} where _segment between ? and ? group by _segment",
        [receipts[0].blocks.first, receipts[-1].blocks.first],
    ).fetchall()
    summaries = {first: summary for first, *summary in rows}
    for receipt in receipts:
        blocks = receipt.blocks
        size = blocks.last - blocks.first + 1
        summary = summaries.get(blocks.first, [0, 0, None, None])
        if summary != [size, size, blocks.first, blocks.last]:
            raise SegmentError(
                f"{receipt.segment}: its table blocks has {summary[0]} rows with {summary[1]} "
                f"heights from {summary[2]} to {summary[3]}"
            )
