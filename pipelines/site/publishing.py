"""Publishing loaded segments, whoever asked for it: Dagster or the command line."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry, SegmentSource
from exporters.archive.shards import shard_number
from exporters.exports.copies import DamagedCopyError
from exporters.exports.staged_zips import staged_part
from exporters.publishing.publication import Outcome, Published, PublishReport, publish_zips
from exporters.publishing.replace import Correction
from exporters.publishing.request import PublishRequest
from exporters.zips.parts import PartRef
from exporters.zips.staging import PartStage
from pipelines.site.publication_state import is_held, published_parts
from pipelines.site.site import Site, at_one_look
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.scratch import scratch_folder
from transforms.tables.registry import HISTORY_TABLES
from transforms.verifying.proofs import Proofs
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt

_log = logging.getLogger(__name__)
_PROVERS = 8


@dataclass(frozen=True, slots=True)
class PublishOutcome:
    """The archive's entries of the segments in question, and what was done to get there."""

    entries: tuple[Entry, ...]
    report: PublishReport


@at_one_look
def publish_segments(
    site: Site,
    segments: Sequence[BlockRange],
    tables: Sequence[str] = HISTORY_TABLES,
    gone: Collection[str] = (),
) -> PublishOutcome:
    """Publish each of the tables of each of the segments (loaded, ascending, at least one).

    What the archive holds already is left alone, but for ZIPs whose paths are among those that are
    `gone`; what was published as other text does not come back so. A staged ZIP that was damaged is
    rendered from the warehouse again. ZIPs that cannot be published are in the report, the others
    go on. The parts that waited for it are gone afterwards. Whatever a publisher that died over
    these segments left out is written.
    """
    catalog = site.loaded_catalog()
    archive = site.published_archive(catalog)
    receipts = [r for r in site.warehouse.receipts(segments) if r.table in tables]
    entries_by_part = published_parts(archive, segments, tables)
    missing: list[Receipt] = []
    refused: list[Published] = []
    for receipt in receipts:
        entry = entries_by_part.get((receipt.table, receipt.blocks))
        is_gone = entry is not None and entry.path in gone
        if is_gone and not is_held(receipt, entries_by_part):
            refused.append(_other_text(site.stage.path(*_identity(receipt)).name, receipt))
        elif is_gone or not is_held(receipt, entries_by_part):
            missing.append(receipt)
    shards = {shard_number(entry.blocks) for entry in entries_by_part.values()}
    loaded = _loaded(catalog, segments)
    report = _publish_parts(site, archive, missing, loaded, doubtful=shards).and_(refused)
    entries_by_part |= {(entry.table, entry.blocks): entry for entry in report.entries}
    entries = tuple(sorted(entries_by_part.values(), key=lambda entry: (entry.blocks, entry.table)))
    for entry in entries:
        site.stage.remove(archive.chain_id, entry.table, entry.blocks)
    return PublishOutcome(entries, report)


def _other_text(name: str, receipt: Receipt) -> Published:
    reason = (
        f"{name} is gone, and the warehouse has other text for it: strata publish --replace REASON "
        f"--table {receipt.table} --blocks {receipt.blocks} puts that there"
    )
    return Published(name, Outcome.CONFLICT, None, reason, receipt.table)


def _loaded(catalog: Catalog, segments: Sequence[BlockRange]) -> Mapping[BlockRange, LoadedSegment]:
    """These segments, and what is loaded between them."""
    hull = BlockRange(segments[0].first, segments[-1].last)
    return {segment.blocks: segment for segment in catalog.segments(hull)}


def replace_published(
    site: Site, segments: Sequence[BlockRange], tables: Sequence[str], correction: Correction
) -> PublishReport:
    """Publish segments (loaded, ascending) anew, other bytes that stand there notwithstanding.

    Every replaced file is recorded in the revisions with the reason; files that are right already
    stay as they are. The index is not trusted: an object that was removed by hand comes back.
    """
    catalog = site.loaded_catalog()
    archive = site.published_archive(catalog)
    receipts = [receipt for receipt in site.warehouse.receipts(segments) if receipt.table in tables]
    report = _publish_parts(site, archive, receipts, _loaded(catalog, segments), correction)
    for receipt in receipts:
        site.stage.remove(archive.chain_id, receipt.table, receipt.blocks)
    return report


def _publish_parts(
    site: Site,
    archive: Archive,
    receipts: Sequence[Receipt],
    segments: Mapping[BlockRange, LoadedSegment],
    correction: Correction | None = None,
    doubtful: Collection[int] = (),
) -> PublishReport:
    """Publish parts; those that neither stage nor warehouse has sound are in the report, too."""
    lost: list[Published] = []
    # Who publishes the same meanwhile removes parts from the stage: this has them in its own.
    with scratch_folder(site.scratch()) as folder:
        stage = PartStage(folder, site.stage.style)
        requests = _part_requests(site, stage, receipts, segments, lost)
        report = publish_zips(archive, requests, correction=correction, doubtful=doubtful)
    return report.and_(lost)


def _part_requests(
    site: Site,
    stage: PartStage,
    receipts: Iterable[Receipt],
    segments: Mapping[BlockRange, LoadedSegment],
    lost: list[Published],
) -> Iterator[PublishRequest]:
    """The requests for parts, several proven at a time; those that are nowhere go to `lost`."""
    # What is published is removed from the stage: its proof is of no use to anybody later.
    proofs, turn = Proofs(), Lock()

    def request(receipt: Receipt) -> PublishRequest | Published:
        try:
            part = _staged(site, stage, receipt, proofs, turn)
        except IntegrityError as error:
            name = site.stage.path(*_identity(receipt)).name
            return Published(name, Outcome.DAMAGED, None, str(error), receipt.table)
        path, segment = stage.path(*_identity(receipt)), segments[receipt.blocks]
        ids = (segment.segment_id, segment.sha256, segment.previous_id)
        source = SegmentSource(segment.blocks, segment.name.version, *ids)
        hashes = (receipt.sha256, part.source.version)
        return PublishRequest(path, part.member, source, receipt.schema, *hashes)

    with ThreadPoolExecutor(_PROVERS) as pool:
        for result in pool.map(request, receipts):
            if isinstance(result, Published):
                lost.append(result)
            else:
                yield result


def _staged(site: Site, stage: PartStage, receipt: Receipt, proofs: Proofs, turn: Lock) -> PartRef:
    """A part in a stage of one's own, proven; rendered where it is missing or damaged."""
    try:
        stage.link(site.stage, *_identity(receipt))
        return staged_part(stage, receipt, proofs)
    except FileNotFoundError:
        pass
    except DamagedCopyError as damage:
        _log.warning("a staged ZIP is rendered from the warehouse again: %s", damage)
    with turn:  # each takes a DuckDB and its memory
        site.render_part(receipt, stage)
    return staged_part(stage, receipt, proofs)


def _identity(receipt: Receipt) -> tuple[str, str, BlockRange]:
    return receipt.segment.chain_id, receipt.table, receipt.blocks
