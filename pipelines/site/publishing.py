"""Publishing loaded segments, whoever asked for it: Dagster or the command line."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry, SegmentSource
from exporters.archive.shards import shard_number
from exporters.publishing.bundles import (
    Bundle,
    bundle_of,
    bundle_request,
    bundles_over,
    due_bundles,
)
from exporters.publishing.publication import Outcome, Published, PublishReport, publish_zips
from exporters.publishing.replace import Correction
from exporters.publishing.request import PublishRequest
from pipelines.site.publication_state import is_held, published_parts
from pipelines.site.site import Site, at_one_look
from transforms.block_range import BlockRange, contiguous_runs
from transforms.errors import IntegrityError
from transforms.files import file_version
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PublishOutcome:
    """The archive's entries of the segments in question, and what was done to get there."""

    archive: Archive
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
    archive = site.archive(catalog.chain_id)
    receipts = [r for r in site.receipts(segments) if r.table in tables]
    entries_by_part = published_parts(archive, segments, tables)
    missing: list[Receipt] = []
    refused: list[Published] = []
    for receipt in receipts:
        entry = entries_by_part.get((receipt.table, receipt.blocks))
        is_gone = entry is not None and entry.path in gone
        if is_gone and not is_held(receipt, entries_by_part):
            refused.append(_other_text(_part(site, receipt).name, receipt))
        elif is_gone or not is_held(receipt, entries_by_part):
            missing.append(receipt)
    shards = {shard_number(entry.blocks) for entry in entries_by_part.values()}
    loaded = _loaded(catalog, segments)
    report = _publish_parts(site, archive, missing, loaded, doubtful=shards).and_(refused)
    entries_by_part |= {(entry.table, entry.blocks): entry for entry in report.entries}
    entries = tuple(sorted(entries_by_part.values(), key=lambda entry: (entry.blocks, entry.table)))
    for entry in entries:
        site.stage.remove(archive.chain_id, entry.table, entry.blocks)
    return PublishOutcome(archive, entries, report)


def _other_text(name: str, receipt: Receipt) -> Published:
    reason = (
        f"{name} is gone, and the warehouse has other text for it: strata publish --replace REASON "
        f"--table {receipt.table} --blocks {receipt.blocks} puts that there"
    )
    return Published(name, Outcome.CONFLICT, None, reason, receipt.table)


@at_one_look
def publish_bundles(site: Site, gone: Sequence[Entry] = ()) -> PublishReport:
    """Publish the bundles that have become due, and those that are gone.

    None is due where the bundle setting is 0.
    """
    catalog = site.warehouse.catalog()
    if catalog is None:
        return PublishReport()
    archive = site.archive(catalog.chain_id)
    bundles = [bundle for entry in gone if (bundle := bundle_of(archive, entry))]
    requests = (_request(site, archive, bundle) for bundle in chain(bundles, _due(site, archive)))
    return publish_zips(archive, requests, scratch=site.scratch())


def bundles_are_due(site: Site) -> bool:
    """Whether `publish_bundles` has something to publish."""
    catalog = site.warehouse.catalog()
    return catalog is not None and any(_due(site, site.archive(catalog.chain_id)))


def _due(site: Site, archive: Archive) -> Iterator[Bundle]:
    if site.settings.bundle:
        for table in HISTORY_TABLES:
            yield from due_bundles(archive, table, site.settings.bundle)


def _request(site: Site, archive: Archive, bundle: Bundle) -> PublishRequest:
    return bundle_request(archive, bundle, site.exporter.proofs, site.settings.name_style)


def _loaded(catalog: Catalog, segments: Sequence[BlockRange]) -> Mapping[BlockRange, LoadedSegment]:
    """These segments and their neighbours, whatever else is loaded."""
    hull = BlockRange(segments[0].first, segments[-1].last)
    return catalog.segments_over(hull)


def replace_published(
    site: Site, segments: Sequence[BlockRange], tables: Sequence[str], correction: Correction
) -> list[PublishReport]:
    """Publish segments (loaded, ascending) anew, other bytes that stand there notwithstanding.

    Every replaced file is recorded in the revisions with the reason; files that are right already
    stay as they are. Bundles over replaced blocks follow. The index is not trusted: an object that
    was removed by hand comes back.
    """
    catalog = site.loaded_catalog()
    archive = site.archive(catalog.chain_id)
    receipts = [receipt for receipt in site.receipts(segments) if receipt.table in tables]
    singles = _publish_parts(site, archive, receipts, catalog.segments, correction)
    bundles = publish_zips(
        archive,
        _bundles_over(site, archive, segments, tables),
        correction=correction,
        scratch=site.scratch(),
    )
    for receipt in receipts:
        site.stage.remove(archive.chain_id, receipt.table, receipt.blocks)
    return [singles, bundles]


def _bundles_over(
    site: Site, archive: Archive, segments: Sequence[BlockRange], tables: Sequence[str]
) -> Iterator[PublishRequest]:
    for table in tables:
        for run in contiguous_runs(segments):
            for bundle in bundles_over(archive, table, run):
                yield _request(site, archive, bundle)


def _publish_parts(
    site: Site,
    archive: Archive,
    receipts: Sequence[Receipt],
    segments: Mapping[BlockRange, LoadedSegment],
    correction: Correction | None = None,
    doubtful: Collection[int] = (),
) -> PublishReport:
    """Publish parts; those that turn out to be damaged are rendered again, and tried once more.

    What the warehouse does not render either is in the report, and the others go on.
    """

    def publish(those: Iterable[Receipt]) -> PublishReport:
        lost: list[Published] = []
        report = publish_zips(
            archive,
            _part_requests(site, those, segments, lost),
            correction=correction,
            scratch=site.scratch(),
            doubtful=doubtful,
        )
        return report.and_(lost)

    report = publish(receipts)
    damaged = report.damaged
    again = [receipt for receipt in receipts if _part(site, receipt).name in damaged]
    for receipt in again:
        reason = damaged[_part(site, receipt).name]
        _log.warning("a staged ZIP is rendered from the warehouse again: %s", reason)
        site.stage.remove(archive.chain_id, receipt.table, receipt.blocks)
    return report.after(publish(again)) if again else report


def _part_requests(
    site: Site,
    receipts: Iterable[Receipt],
    segments: Mapping[BlockRange, LoadedSegment],
    lost: list[Published],
) -> Iterator[PublishRequest]:
    """The requests for parts; those that neither stage nor warehouse has are added to `lost`."""
    for receipt in receipts:
        try:
            yield part_request(site, receipt, segments[receipt.blocks])
        except IntegrityError as error:
            name = _part(site, receipt).name
            lost.append(Published(name, Outcome.DAMAGED, None, str(error), receipt.table))


def _part(site: Site, receipt: Receipt) -> Path:
    return site.stage.path(receipt.segment.chain_id, receipt.table, receipt.blocks)


def part_request(site: Site, receipt: Receipt, segment: LoadedSegment) -> PublishRequest:
    """The request to publish a part; rendered from the warehouse again where it is missing.

    One without its recorded hash cannot be distinguished from a damaged one and counts as missing.
    """
    place = (receipt.segment.chain_id, receipt.table, receipt.blocks)
    zip_sha256 = site.stage.sha256(*place)
    if zip_sha256 is None:
        site.stage_part(receipt)
        zip_sha256 = site.stage.sha256(*place)
    path = site.stage.path(*place)
    proof = site.exporter.proofs.find(str(path), file_version(path.stat()), receipt.sha256)
    return PublishRequest(
        receipt.table,
        path,
        (_source(segment),),
        (receipt.schema,),
        receipt.rows,
        (receipt.sha256,),
        zip_sha256 or "",
        proven=proof is not None and proof.digest == zip_sha256,
    )


def _source(segment: LoadedSegment) -> SegmentSource:
    return SegmentSource(
        segment.blocks,
        segment.name.version,
        segment.segment_id,
        segment.sha256,
        segment.previous_id,
    )
