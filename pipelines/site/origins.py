"""What the warehouse knows of the segments that ZIPs are made of."""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

from exporters.archive.entries import SegmentSource
from exporters.publishing.adopting import Origin, Recovery
from pipelines.site.site import Site
from transforms.blocks import BlockRange, contiguous_runs
from transforms.bounds import rfc3339
from transforms.duck import Error
from transforms.errors import IntegrityError
from transforms.machine_errors import machine_error
from transforms.warehouse.range_choice import segment_times
from transforms.warehouse.receipts import LoadedSegment
from transforms.warehouse.shapes import Times

_log = logging.getLogger(__name__)


def segment_sources(
    site: Site, segments: Mapping[BlockRange, LoadedSegment]
) -> dict[BlockRange, SegmentSource]:
    """Loaded segments as the archive names them; opens each volume that holds some of them."""
    times = _times(site, segments) if segments else {}
    return {blocks: _source(one, times.get(blocks)) for blocks, one in segments.items()}


def segment_origin(site: Site) -> Origin:
    """What the warehouse knows of the segments that ZIPs were made of."""
    catalog = site.warehouse.catalog()
    known: dict[BlockRange, Sequence[SegmentSource]] = {}

    def found(blocks: BlockRange) -> Sequence[SegmentSource]:
        loaded = list(catalog.segments_over(blocks).values()) if catalog else []
        start = bisect_left(loaded, blocks.first, key=lambda one: one.blocks.first)
        stop = bisect_right(loaded, blocks.last, key=lambda one: one.blocks.last)
        inside = {one.blocks: one for one in loaded[start:stop]}
        whole = list(contiguous_runs(inside)) == [blocks]
        return tuple(segment_sources(site, inside).values()) if whole else ()

    def origin(blocks: BlockRange) -> Sequence[SegmentSource]:
        if blocks not in known:  # fifteen ZIPs ask for the same
            known[blocks] = found(blocks)
        return known[blocks]

    return origin


def site_recovery(site: Site) -> Recovery:
    """What a shard that is lost is made again with."""
    return Recovery(segment_origin(site), site.scratch())


def _times(site: Site, segments: Iterable[BlockRange]) -> Mapping[BlockRange, Times]:
    """First and last times; none where a volume cannot be read, which is for others to mend."""
    try:
        return segment_times(site.warehouse, segments)
    except (Error, IntegrityError, FileNotFoundError) as error:
        if isinstance(error, Error) and machine_error(error) is not None:
            raise
        _log.warning("the times of segments are not known, as a volume cannot be read: %s", error)
        return {}


def _source(segment: LoadedSegment, times: Times | None) -> SegmentSource:
    computed = bool(segment.segment_id)
    return SegmentSource(
        segment.blocks,
        segment.name.version,
        segment.segment_id if computed else None,
        segment.sha256,
        segment.previous_id if computed else None,
        (rfc3339(times[0]), rfc3339(times[1])) if times else None,
    )
