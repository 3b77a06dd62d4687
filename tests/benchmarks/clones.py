"""A made-up history of tens of thousands of segments in volumes as bulk loads leave them.

A hundred segments are loaded as always; every further hundred is written by SQL from what the first
ones became, with blocks, times and ids of its own. It is thinner than what was loaded, nearer to
mainnet's whole history: in each segment 1,000 rows of orders, 100 of withdrawals, 20 of
provisions, and one block in ten. Nothing is compacted. Receipts keep the first hundred's rows and
hashes: the read API asks none of them, and such a warehouse can be neither exported nor verified.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from exporters.zips.staging import PartStage
from tests.benchmarks.market import BLOCKS, CHAIN, ORDERS, VERSIONS, party_sql, write_history
from transforms.block_range import BlockRange
from transforms.duck import Connection, attached, quote_name, quote_text, working_connection
from transforms.lookups.lookup_tables import write_lookups
from transforms.scratch import scratch_folder
from transforms.segments.cid import CidHasher
from transforms.segments.segment_name import SegmentName
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.receipts import LoadedSegment, Receipt
from transforms.warehouse.shapes import Volume
from transforms.warehouse.storing import store_history
from transforms.warehouse.table_load import SORT_KEYS
from transforms.warehouse.volume_records import Origin, read_receipts, read_segments, write_records
from transforms.warehouse.volumes import attach_options, create_table_sql
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse

VOLUME_SEGMENTS = 100
ORDER_ROWS, WITHDRAWAL_ROWS = 1000, 100
ORDERS_KEPT, WITHDRAWALS = ORDER_ROWS // VERSIONS, WITHDRAWAL_ROWS // 2
"""Orders and withdrawals of a segment."""
_KEPT = {
    "orders": f"_row <= {ORDER_ROWS}",
    "withdrawals": f"_row <= {WITHDRAWAL_ROWS}",
    "blocks": "_row % 10 = 1",
}


def order_number(n: int) -> int:
    """The number in the whole market of the n-th order that is kept."""
    return n // ORDERS_KEPT * ORDERS + n % ORDERS_KEPT


def make_clones(folder: Path, segments: int, each: int = VOLUME_SEGMENTS) -> None:
    """Write a warehouse of so many segments, `each` to a volume, below a folder."""
    warehouse = open_warehouse(folder / "warehouse")
    base = _load(warehouse, folder / "source", each)
    backing = warehouse.backing
    document = backing.log.begin()
    origin = Origin(document.warehouse, document.generation)
    clones: list[Volume] = []
    for start in range(0, segments, each):
        with scratch_folder(backing.scratch) as scratch:
            path = scratch / "volume.duckdb"
            held = _write(path, backing.files.path(base.file), origin, base, start, segments)
            clones.append(store_history(backing.store, backing.files, path, origin, *held))
    backing.log.commit(lambda newest: newest.with_volumes([*newest.states(), *clones]))
    warehouse.show()
    warehouse.sweep(grace_seconds=0)


def _load(warehouse: Warehouse, folder: Path, segments: int) -> Volume:
    """Load the first segments; returns the volume that they became."""
    write_history(folder, segments)
    source = Source(FolderStore(folder))
    stage = PartStage(warehouse.cache / "parts", durable=False)
    report = warehouse.load(source, warehouse.survey(source).pending, stage)
    assert not report.failures, report.failures
    shutil.rmtree(warehouse.cache / "parts")
    (volume,) = warehouse.loaded_catalog().history()
    return volume


def _write(
    path: Path, base_file: Path, origin: Origin, base: Volume, start: int, segments: int
) -> tuple[list[LoadedSegment], list[Receipt]]:
    """Write a volume as large as `base`, the first segment of which is number `start` of all."""
    with working_connection(path.parent) as con:
        con.execute(f"attach {quote_text(base_file)} as base (read_only)")
        held = [_moved(one, start) for one in read_segments(con, "base.strata.segments")]
        found = read_receipts(con, "from base.strata.receipts", {})
        receipts = [replace(one, segment=_moved_name(one.segment, start)) for one in found]
        with attached(con, path, "volume", attach_options(base.size)):
            for table in sorted(base.shapes):
                _write_table(con, table, base, start, segments * WITHDRAWALS)
            write_records(con, "volume", origin, held, receipts)
            write_lookups(con, "volume")
    return held, receipts


def _write_table(con: Connection, table: str, base: Volume, start: int, withdrawals: int) -> None:
    shape = base.shapes[table]
    con.execute(create_table_sql("volume", table, shape.column_list()))
    changed = {"_segment": f"_segment + {start * BLOCKS}"}
    changed |= {
        name: f"{name} + to_seconds({start * BLOCKS})"
        for name in ("vega_time", "created_at", "updated_at", "created_timestamp")
        if name in shape.columns
    }
    changed |= dict(_values(table, start, withdrawals))
    values = ", ".join(f"{sql} as {name}" for name, sql in changed.items())
    key = SORT_KEYS.get(table, ("_segment", "_row"))
    con.execute(
        f"insert into volume.main.{quote_name(table)} by name "
        f"select * replace ({values}) from base.main.{quote_name(table)} "
        f"where {_KEPT.get(table, 'true')} order by {', '.join(key)}"
    )


def _values(table: str, start: int, withdrawals: int) -> Iterator[tuple[str, str]]:
    """What else differs from the first hundred segments, as the market would have it."""
    segment = f"({start} + _segment // {BLOCKS})"
    if table == "orders":
        order = f"{segment} * {ORDERS} + (_row - 1) // {VERSIONS}"
        yield "id", f"sha256('order' || ({order}))"
    elif table == "withdrawals":
        number = f"{segment} * {WITHDRAWALS} + (_row - 1) // 2"
        yield "id", f"sha256('withdrawal' || ({number}))"
        yield "party_id", party_sql(number, withdrawals)
    elif table == "blocks":
        height = f"height + {start * BLOCKS}"
        yield "height", height
        yield "hash", f"sha256('block' || ({height}))"


def _moved(segment: LoadedSegment, start: int) -> LoadedSegment:
    name = _moved_name(segment.name, start)
    number = name.blocks.first // BLOCKS
    return replace(
        segment,
        name=name,
        info=replace(segment.info, key=name.file_name),
        segment_id=segment_id(number),
        previous_id=segment_id(number - 1) if number else "",
    )


def segment_id(number: int) -> str:
    """The id of the n-th segment: each was made after the one before it."""
    hasher = CidHasher()
    hasher.update(b"%d" % number)
    return hasher.cid()


def _moved_name(name: SegmentName, start: int) -> SegmentName:
    blocks, more = name.blocks, start * BLOCKS
    return SegmentName(CHAIN, name.version, BlockRange(blocks.first + more, blocks.last + more))
