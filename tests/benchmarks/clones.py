"""A made-up history of tens of thousands of segments in volumes as bulk loads leave them.

A hundred segments are loaded as always; every further hundred is written by SQL from what the first
ones became, with blocks, times and ids of its own. It is thinner than what was loaded, nearer to
mainnet's whole history: in each segment 1,000 rows of orders, 100 of withdrawals, 20 of
provisions, and one block in ten. Nothing is compacted. Receipts keep the first hundred's rows and
hashes: the read API asks none of them, and such a warehouse can be neither exported nor verified.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Set
from dataclasses import replace
from pathlib import Path

from exporters.zips.staging import PartStage
from tests.benchmarks.market import BLOCKS, CHAIN, ORDERS, VERSIONS, party_sql, write_history
from transforms.block_range import BlockRange
from transforms.duck import Connection, quote_files, working_connection
from transforms.scratch import scratch_folder
from transforms.segments.cid import CidHasher
from transforms.segments.segment_name import SegmentName
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.volume_files import store_volume
from transforms.warehouse.manifests.data_files import file_sql, write_sql
from transforms.warehouse.manifests.manifest import manifest_receipts, manifest_segments
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt
from transforms.warehouse.manifests.shapes import Volume
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
    snapshot = backing.log.begin()
    clones: list[Volume] = []
    for start in range(0, segments, each):
        about = _moved_rows(backing, base, start)
        with scratch_folder(backing.scratch) as scratch, working_connection(scratch) as con:
            data = _write(con, backing, scratch, base, start, segments)
            clones.append(store_volume(backing, con, snapshot, data, *about))
    backing.log.commit(lambda newest: newest.with_volumes([*newest.states, *clones]))
    warehouse.show()
    warehouse.sweep(grace_seconds=0)


def _load(warehouse: Warehouse, folder: Path, segments: int) -> Volume:
    """Load the first segments; returns the volume that they became."""
    write_history(folder, segments)
    source = Source(FolderStore(folder))
    stage = PartStage(warehouse.cache / "parts")
    report = warehouse.load(source, warehouse.survey(source).pending, stage)
    assert not report.failures, report.failures
    shutil.rmtree(warehouse.cache / "parts")
    (volume,) = warehouse.loaded_catalog().snapshot.history
    return volume


def _moved_rows(
    backing: Backing, base: Volume, start: int
) -> tuple[list[LoadedSegment], list[Receipt]]:
    """What is known of a run like `base`, the first segment of which is number `start` of all."""
    manifest = backing.files.path(base.file)
    segments = [_moved(one, start) for one in manifest_segments(manifest)]
    receipts = manifest_receipts([manifest])
    return segments, [replace(one, segment=_moved_name(one.segment, start)) for one in receipts]


def _write(
    con: Connection, backing: Backing, scratch: Path, base: Volume, start: int, segments: int
) -> dict[str, Path]:
    """Write a run as large as `base`, the first segment of which is number `start` of all."""
    data: dict[str, Path] = {}
    for table, file in base.data.items():
        data[table] = scratch / f"{table}.parquet"
        shape = base.shapes[table]
        columns = {column.name for column in shape.column_list()}
        changed = dict(_changes(table, columns, start, segments * WITHDRAWALS))
        values = ", ".join(f"{sql} as {name}" for name, sql in changed.items())
        source = file_sql(quote_files([backing.files.path(file)]))
        query = f"select * replace ({values}) from {source} where {_KEPT.get(table, 'true')}"
        con.execute(write_sql(query, data[table], 1000))
    return data


def _changes(
    table: str, columns: Set[str], start: int, withdrawals: int
) -> Iterator[tuple[str, str]]:
    """What differs from the first hundred segments: blocks, times, and what the market has."""
    yield "_segment", f"_segment + {start * BLOCKS}"
    for name in ("vega_time", "created_at", "updated_at", "created_timestamp"):
        if name in columns:
            yield name, f"{name} + to_seconds({start * BLOCKS})"
    yield from _values(table, start, withdrawals)


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
