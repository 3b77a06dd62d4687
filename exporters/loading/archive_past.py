"""Whether an archive tells the same past as what is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from exporters.archive.archive import Archive
from exporters.archive.index import ArchiveIndex
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.segments.id_chain import contradiction
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.receipts import LoadedSegment

_MOST_NAMED = 3


class ContradictionError(IntegrityError):
    """An archive and what is loaded are of different histories."""


def check_past(archive: Archive, index: ArchiveIndex, catalog: Catalog) -> None:
    """Raise `ContradictionError` where the archive's index contradicts the loaded segments.

    Of each run of segments that name each other only the last id is compared: it follows from that
    segment's bytes, which have the id before it, so equal ids have an equal past.
    """
    runs = (run for summary in index.shards.values() for run in summary.ids)
    check_same(archive, ((run.last, run.segment_id) for run in runs), catalog)


def check_same(
    archive: Archive, published: Iterable[tuple[BlockRange, str]], catalog: Catalog
) -> None:
    """Raise `ContradictionError` where segments with other ids than these are loaded."""
    differences = [
        f"segment {blocks} has the id {segment_id} there; loaded is segment "
        f"{segment.blocks} with the id {segment.segment_id}"
        for blocks, segment_id in published
        if (segment := catalog.segment_at(blocks.last))
        and (segment.blocks, segment.segment_id) != (blocks, segment_id)
    ]
    _refuse(archive, differences)


def check_beside(archive: Archive, run: Sequence[LoadedSegment], catalog: Catalog) -> None:
    """Raise `ContradictionError` where a run to be loaded does not fit what is beside it."""
    first, last = run[0].blocks.first, run[-1].blocks.last
    differences = [
        f"segments {first}-{last} are to be loaded, and segment {segment.blocks} is"
        for segment in catalog.segments(BlockRange(first, last))
    ]
    before, after = catalog.segment_at(first - 1), catalog.segment_at(last + 1)
    beside = [(before, run[0]), (run[-1], after)]
    conflicts = (contradiction(one.id_run, two.id_run) for one, two in beside if one and two)
    _refuse(archive, [*differences, *(str(conflict) for conflict in conflicts if conflict)])


def _refuse(archive: Archive, differences: Sequence[str]) -> None:
    if not differences:
        return
    more = len(differences) - _MOST_NAMED
    rest = f", and {more} more" if more > 0 else ""
    raise ContradictionError(
        f"{archive.place('')} contradicts what is loaded: {'; '.join(differences[:_MOST_NAMED])}"
        f"{rest}. Nothing more was taken from it: load it into a warehouse of its own, and see "
        "which of the two is the network's"
    )
