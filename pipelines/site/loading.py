"""Loading the segments of one run, whoever asked for them: Dagster or the command line."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.site.site import LISTED_SECONDS, Site, at_one_look
from transforms.block_range import BlockRange, gaps_between
from transforms.coverage import union
from transforms.segments.inventory import Inventory, SegmentFile
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.manifests.receipts import Receipt

if TYPE_CHECKING:
    from transforms.spam.capture_tables import RefusedLine
    from transforms.warehouse.load.loader import LoadReport


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """What became of the segments: receipts of the history tables, and reasons of failures.

    `loaded` are those that this load added; others may have been there, or come from another load.
    `unreadable` gives the reason for each file that the source did not give, by key.
    `gaps_before` are blocks that the warehouse lacks right before one of the segments.
    """

    segments: tuple[BlockRange, ...]
    loaded: frozenset[BlockRange]
    receipts: Sequence[Receipt]
    failures: Mapping[BlockRange, str]
    unreadable: Mapping[str, str]
    gaps_before: tuple[BlockRange, ...] = ()


def load_segments(site: Site, segments: Sequence[BlockRange]) -> LoadOutcome:
    """Load those of the segments that are not loaded yet, also such as failed before.

    Every segment that is in the warehouse at the end has its receipts; the others their reason.
    """
    site.stage.sweep()
    segment_set = frozenset(segments)
    inventory = _inventory(site, segment_set)
    files = [file for file in inventory.fresh if file.blocks in segment_set]
    report = site.warehouse.load(
        site.source,
        files,
        site.stage,
        site.progress,
        requires_id_chain=site.settings.require_id_chain,
    )
    with site.warehouse.one_look():
        return _outcome(site, segments, files, report, inventory)


def load_spam_captures(site: Site) -> Sequence[RefusedLine]:
    """Load the source's new spam captures, once segments name the chain.

    Returns the lines of all captures that are none, with their reasons.
    """
    snapshot = site.warehouse.snapshot()
    if not snapshot.chain_id:
        return ()
    site.source.listing(LISTED_SECONDS)
    if "spam" not in site.source.folders and snapshot.captures is None:
        return ()
    # Hardly a source has any.
    from transforms.warehouse.capture_file import load_captures

    return load_captures(site.warehouse, site.source)


def _outcome(
    site: Site,
    segments: Sequence[BlockRange],
    files: Sequence[SegmentFile],
    report: LoadReport,
    inventory: Inventory,
) -> LoadOutcome:
    """What is in the warehouse after a load, and why the rest is not."""
    catalog = site.warehouse.catalog()
    present = {blocks for blocks in segments if catalog.holds(blocks)}
    refused = report.unreadable | {file.key: file.reason for file in report.failures}
    refused |= {refusal.key: refusal.reason for refusal in inventory.refused}
    others = (blocks for blocks in segments if blocks not in present)
    failures = {blocks: _reason(files, blocks, refused) for blocks in others}
    receipts = [
        one for one in site.warehouse.receipts(sorted(present)) if one.table in HISTORY_TABLES
    ]
    starts = {blocks.first for blocks in segments}
    # A volume has no gap inside, so that no manifest is read.
    runs = union(volume.blocks for volume in catalog.snapshot.history)
    gaps = tuple(gap for gap in gaps_between(runs) if gap.last + 1 in starts)
    loaded = frozenset(report.loaded)
    return LoadOutcome(tuple(segments), loaded, receipts, failures, report.unreadable, gaps)


@at_one_look
def _inventory(site: Site, segments: Collection[BlockRange]) -> Inventory:
    """What the source has; a listing of this process may be a minute old, but not what is wanted.

    Of that every file is asked for: one that is new, gone or another by now means a new listing.
    """
    began = time.monotonic()
    inventory = site.warehouse.survey(site.source, LISTED_SECONDS).inventory
    if site.source.listed >= began:
        return inventory
    files = [file for file in inventory.fresh if file.blocks in segments]
    others = frozenset(segments).difference(file.blocks for file in files)
    catalog = site.warehouse.catalog()
    if all(map(catalog.holds, others)) and site.source.has(files):
        return inventory
    return site.warehouse.survey(site.source).inventory


def _reason(files: Sequence[SegmentFile], blocks: BlockRange, refused: Mapping[str, str]) -> str:
    for file in files:
        if file.blocks == blocks:
            return refused.get(file.info.key, f"{file.info.key} was not loaded")
    for key, reason in refused.items():
        if key.endswith(f"-{blocks}.zip"):
            return reason
    return "the source has no such segment"
