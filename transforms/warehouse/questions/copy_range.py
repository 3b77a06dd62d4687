"""Which segments a copy of the warehouse takes: all that a range touches, and none of them lost."""

from __future__ import annotations

from transforms.block_range import BlockRange, contiguous_runs
from transforms.bounds import Bound, rfc3339
from transforms.errors import RangeError
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.files.lost_files import LostFilesError, absent_files
from transforms.warehouse.log.losses import LostRowsError
from transforms.warehouse.manifests.shapes import Extent
from transforms.warehouse.questions.range_choice import SegmentChoice, TimedWarehouse, choose_range
from transforms.warehouse.warehouse import Warehouse

_NAMED = 10  # of the runs of blocks that are loaded


def choose_segments(warehouse: Warehouse, extent: Extent | None) -> SegmentChoice:
    """The segments with the blocks, or else the times, of an extent; all loaded ones without one.

    Raises `RangeError` where none has them or blocks are not loaded, `IntegrityError` where rows
    of theirs are lost: in a copy nobody could tell.
    """
    index = TimedWarehouse(warehouse)
    catalog = index.catalog
    volumes = [v for v in catalog.volumes if not extent or v.kind == "state" or extent.reaches(v)]
    absent = absent_files(catalog.store, (volume.file for volume in volumes))
    if absent:
        raise LostFilesError(catalog.store, absent)
    ends: list[Bound | None] = [None, None]
    if extent and extent.blocks:
        ends = [Bound(str(at), block=at) for at in (extent.blocks.first, extent.blocks.last)]
    elif extent and extent.times:
        ends = [Bound(rfc3339(at), micros=at) for at in extent.times]
    choice = choose_range(index, *ends)
    losses = [loss for loss in catalog.snapshot.losses if loss.touches(choice.blocks)]
    if losses:
        raise LostRowsError(catalog.store.describe(), losses)
    if extent and extent.blocks:
        _check_loaded(catalog, extent.blocks)
    return choice


def _check_loaded(catalog: Catalog, blocks: BlockRange) -> None:
    runs = [*contiguous_runs(catalog.blocks)]
    if not any(run.holds(blocks) for run in runs):
        more = f" and {len(runs) - _NAMED} more runs" if len(runs) > _NAMED else ""
        raise RangeError(
            f"of blocks {blocks} not all are loaded: {catalog.store.describe()} holds "
            f"{', '.join(map(str, runs[:_NAMED]))}{more}"
        )
