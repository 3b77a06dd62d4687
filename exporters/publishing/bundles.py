"""Wider ZIPs, each over the same number of consecutive segments, spliced from the single ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.archive.shards import SHARD_BLOCKS, shard_number
from exporters.archive.sound_documents import sound_index
from exporters.exports.plan import ExportPlan, HeldColumns, NotHeldError, plan_export
from exporters.exports.published_zips import published_copy, published_parts
from exporters.exports.splice import layout_export
from exporters.publishing.request import PublishRequest
from exporters.zip_names import NameStyle
from exporters.zips.layout import Layout
from exporters.zips.parts import read_parts
from transforms.block_range import BlockRange, contiguous_runs
from transforms.coverage import difference
from transforms.errors import ConfigError
from transforms.segments.segment_name import SegmentName
from transforms.verifying.proofs import Proofs

Bundle = tuple[Entry, ...]
"""The entries of the single-segment ZIPs that a bundle joins, ascending."""


def due_bundles(archive: Archive, table: str, size: int) -> Iterator[Bundle]:
    """Yield the bundles of `size` segments of a table that are not published yet, ascending.

    A bundle's segments follow each other without a gap. It starts right after the bundle before it,
    or where a run of segments starts; segments that do not fill one wait for more. The same archive
    always gives the same bundles. Raises `ConfigError` for a size below 2.
    """
    if size < 2:
        raise ConfigError(f"a bundle of {size} segments is none: use 2 or more, or no bundles")
    sums = sound_index(archive).tables[table]
    for run in difference(sums.covered, sums.bundled):
        singles = _singles(archive, table, run)
        while len(bundle := tuple(islice(singles, size))) == size:
            yield bundle


def bundle_of(archive: Archive, entry: Entry) -> Bundle:
    """The single-segment ZIPs that a bundle joins, as they are published now."""
    return tuple(_singles(archive, entry.table, entry.blocks))


def bundles_over(archive: Archive, table: str, blocks: BlockRange) -> Iterator[Bundle]:
    """Yield the published bundles that hold any of these blocks: what a replacement makes stale."""
    for entry in archive.entries(table, blocks):
        if entry.is_bundle:
            yield bundle_of(archive, entry)


def bundle_request(
    archive: Archive, bundle: Sequence[Entry], proofs: Proofs, style: NameStyle = NameStyle.SPEC
) -> PublishRequest:
    """The request to publish a bundle. Of its ZIPs no data is read yet.

    When it is written each is proven first, unless `proofs` has that already: a bit that flipped in
    one must not go into another ZIP. Raises `NotHeldError` where its segments do not join.
    """
    plan = _plan(archive, bundle)
    copies = ((item, published_copy(archive, item, proofs)) for item in bundle)
    parts = [part for entry, copy in copies for part in published_parts(entry, copy)]
    return PublishRequest(
        plan.table,
        layout_export(plan, parts, style),
        tuple(segment for entry in bundle for segment in entry.segments),
        tuple(span.schema for span in plan.spans),
        sum(entry.rows for entry in bundle),
    )


def spliced_bundle(archive: Archive, bundle: Entry) -> Layout:
    """A published bundle, laid out again from the single ZIPs that are published now.

    Raises `NotHeldError` where they are not all there.
    """
    singles = bundle_of(archive, bundle)
    if list(contiguous_runs(single.blocks for single in singles)) != [bundle.blocks]:
        raise NotHeldError(f"not all single-segment ZIPs of {bundle.table} lie in {bundle.blocks}")
    parts = [part for entry in singles for part in read_parts(archive.source(entry))]
    return layout_export(_plan(archive, singles), parts)


def _plan(archive: Archive, bundle: Sequence[Entry]) -> ExportPlan:
    segments = (
        (
            SegmentName(archive.chain_id, entry.segments[0].version, entry.blocks),
            entry.members[0].schema,
        )
        for entry in bundle
    )
    blocks = BlockRange(bundle[0].blocks.first, bundle[-1].blocks.last)
    return plan_export(HeldColumns.of(segments), bundle[0].table, blocks)


def _singles(archive: Archive, table: str, run: BlockRange) -> Iterator[Entry]:
    """The single-segment ZIPs inside a run, ascending, from the shards alone."""
    for number in range(shard_number(run), run.last // SHARD_BLOCKS + 1):
        for entry in archive.shard(number).entries:
            inside = run.first <= entry.blocks.first and entry.blocks.last <= run.last
            if entry.table == table and inside and not entry.is_bundle:
                yield entry
