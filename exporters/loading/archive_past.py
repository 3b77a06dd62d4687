"""Whether an archive tells the same past as what is loaded, and its index the same as its lake."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from exporters.archive.archive import Archive
from exporters.archive.entries import Csv, SegmentSource
from exporters.archive.lake_place import LAKE, MANIFESTS
from exporters.archive.shards import SHARD_BLOCKS
from exporters.fetching.past import PastChangedError
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.segments.id_chain import contradiction
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt

_MOST_NAMED = 3


def check_past(archive: Archive, catalog: Catalog) -> None:
    """Raise `PastChangedError` where the archive's index contradicts the loaded segments.

    Of each run of segments that name each other only the last id is compared: it follows from that
    segment's bytes, which have the id before it, so equal ids have an equal past.
    """
    differences: list[str] = []
    for summary in archive.index().shards.values():
        for run in summary.ids:
            segment = catalog.segment_at(run.last.last)
            if segment and (segment.blocks, segment.segment_id) != (run.last, run.segment_id):
                differences.append(
                    f"segment {run.last} has the id {run.segment_id} there; loaded is segment "
                    f"{segment.blocks} with the id {segment.segment_id}"
                )
    _refuse(archive, differences)


def check_beside(archive: Archive, run: Sequence[LoadedSegment], catalog: Catalog) -> None:
    """Raise `PastChangedError` where a run that is to be loaded does not fit what is beside it."""
    first, last = run[0].blocks.first, run[-1].blocks.last
    differences = [
        f"segments {first}-{last} are to be loaded, and segment {blocks} is"
        for blocks in catalog.segments_over(BlockRange(first, last))
        if first <= blocks.last and blocks.first <= last
    ]
    before, after = catalog.segment_at(first - 1), catalog.segment_at(last + 1)
    beside = [(before, run[0]), (run[-1], after)]
    conflicts = (contradiction(one.id_run, two.id_run) for one, two in beside if one and two)
    _refuse(archive, [*differences, *(str(conflict) for conflict in conflicts if conflict)])


def check_index(
    archive: Archive, segments: Sequence[LoadedSegment], receipts: Sequence[Receipt]
) -> None:
    """Raise `IntegrityError` where the archive's index says other of segments than the lake."""
    place = archive.place(f"{LAKE}/{MANIFESTS}")
    zips: dict[tuple[BlockRange, str], Csv] = {}
    sources: dict[BlockRange, SegmentSource] = {}
    first, last = segments[0].blocks.first, segments[-1].blocks.last
    for number in range(first // SHARD_BLOCKS, last // SHARD_BLOCKS + 1):
        for entry in archive.shard(number).entries:
            if not entry.is_bundle:
                (source,) = entry.segments
                if sources.setdefault(source.blocks, source) != source:
                    raise IntegrityError(
                        f"{archive.place(entry.path)} was made of another segment "
                        f"{source.blocks} than the ZIPs beside it"
                    )
                zips[entry.blocks, entry.table] = entry.members[0]
    for segment in segments:
        if sources.get(segment.blocks) != _source(segment):
            raise IntegrityError(
                f"{place} has segment {segment.name}, of which no ZIP is published: its keeper "
                "should run strata verify"
            )
    said = {(r.blocks, r.table): (r.rows, r.bytes, r.sha256, r.schema) for r in receipts}
    for blocks, table in product((segment.blocks for segment in segments), HISTORY_TABLES):
        csv = zips.get((blocks, table))
        if said.get((blocks, table)) != (csv and (csv.rows, csv.bytes, csv.sha256, csv.schema)):
            raise IntegrityError(
                f"{place} and the index say different of table {table} of segment {blocks}: its "
                "keeper should run strata verify"
            )


def _source(segment: LoadedSegment) -> SegmentSource:
    """A segment as the index has it."""
    name = segment.name
    return SegmentSource(
        name.blocks, name.version, segment.segment_id, segment.sha256, segment.previous_id
    )


def _refuse(archive: Archive, differences: Sequence[str]) -> None:
    if not differences:
        return
    more = len(differences) - _MOST_NAMED
    rest = f", and {more} more" if more > 0 else ""
    raise PastChangedError(
        f"{archive.place('')} contradicts what is loaded: {'; '.join(differences[:_MOST_NAMED])}"
        f"{rest}. Nothing more was taken from it: load it into a warehouse of its own, and see "
        "which of the two is the network's"
    )
