"""Compaction: neighbouring runs of segments become one, so that few files answer a query.

Which do is planned in `merge_plan`. The merged data files are proven against the receipts before
the log names them; the old ones stay for the grace period, for readers of older snapshots.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.duck import Connection
from transforms.errors import IntegrityError
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.rendering import rendering_problem
from transforms.warehouse.load.volume_files import store_volume
from transforms.warehouse.log.log import Log
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.data_files import joined_sql, write_sql
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.manifests.shapes import Shape, Volume, shapes_of
from transforms.warehouse.merge.merge_plan import MOST_PARTIAL, plan_merges


def merge(backing: Backing, most_partial: int = MOST_PARTIAL) -> list[str]:
    """Merge until nothing is worth merging; see `plan_merges` for `most_partial`.

    Returns the keys of the new manifests. May be killed and run again, beside loads and readers.
    Raises `IntegrityError` where a merged volume does not render to the bytes of its receipts; the
    old volumes then stay as they are.
    """
    done, snapshot = list[str](), backing.log.newest()
    while volumes := next(plan_merges(snapshot.history, most_partial), ()):
        merged = _merge(backing, volumes, snapshot)
        snapshot = _replaced(backing.log, {volume.key for volume in volumes}, merged)
        if all(volume.key != merged.key for volume in snapshot.volumes):
            break  # another process compacts too: it goes on
        done.append(merged.key)
    return done


def _replaced(log: Log, old: set[str], merged: Volume) -> Snapshot:
    """Name the merged volume instead of the old ones, if all of them are still named."""

    def change(newest: Snapshot) -> Snapshot:
        rest = [volume for volume in newest.volumes if volume.key not in old]
        if len(rest) + len(old) != len(newest.volumes):
            return newest
        return newest.with_volumes([*rest, merged])

    return log.commit(change)


def _merge(backing: Backing, volumes: Sequence[Volume], snapshot: Snapshot) -> Volume:
    """Write the merged volume and prove it; returns it as a snapshot will list it."""
    catalog = backing.catalog(snapshot)
    blocks = BlockRange(volumes[0].blocks.first, volumes[-1].blocks.last)
    segments, receipts = catalog.segments(blocks), catalog.receipts(blocks)
    shapes, data = shapes_of(receipts), dict[str, Path]()
    with backing.working() as (con, scratch):
        for table in sorted({table for volume in volumes for table in volume.data}):
            files = [volume.data[table] for volume in volumes if table in volume.data]
            mine = [receipt for receipt in receipts if receipt.table == table]
            data[table] = scratch / f"{table}.parquet"
            with backing.files.hold(files):
                paths = [backing.files.path(file) for file in files]
                write_joined(con, data[table], paths, shapes[table], mine)
        return store_volume(backing, con, snapshot, data, segments, receipts)


def write_joined(
    con: Connection, path: Path, files: Sequence[Path], shape: Shape, receipts: Sequence[Receipt]
) -> None:
    """Write the rows that receipts of neighbours are about from data files to one, and prove it.

    Raises `IntegrityError` where it does not render to what they say.
    """
    row_bytes = sum(r.bytes for r in receipts) // max(sum(r.rows for r in receipts), 1)
    first, last = receipts[0].blocks.first, receipts[-1].blocks.first
    rows = joined_sql(con, receipts[0].table, shape.column_list(), files)
    con.execute(write_sql(f"{rows} where _segment between {first} and {last}", path, row_bytes))
    if problem := rendering_problem(con, path, receipts, path.parent):
        raise IntegrityError(f"joined anew, {problem}")
