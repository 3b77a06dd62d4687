"""Making again whatever is missing of what was published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby

from exporters.archive.archive import Archive
from exporters.archive.documents import refresh
from exporters.archive.entries import Entry
from exporters.archive.hash_lists import put_hash_file
from exporters.archive.revisions import Revision, record
from exporters.archive.shards import shard_number
from exporters.publishing.adopting import adopt, neighbours
from exporters.publishing.bundles import bundle_of, bundle_request
from exporters.publishing.comparing import Differences
from exporters.publishing.publication import (
    Outcome,
    Published,
    name_in_shards,
    publish_zips,
)
from exporters.publishing.request import PublishRequest
from pipelines.site.completing import Completion, unpublished
from pipelines.site.publishing import part_request, segment_origin
from pipelines.site.site import Site
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError, RangeError
from transforms.warehouse.manifests.receipts import LoadedSegment

Loaded = Mapping[BlockRange, LoadedSegment]
"""All loaded segments, by their blocks."""

_REASON = "its ZIP was gone from the archive and was made again from the warehouse"


def make_again(
    site: Site, archive: Archive, differences: Differences, *, contents: bool
) -> Completion:
    """Make again what an archive lacks; see `pipelines.site.completing.complete_archive`."""
    segments = site.loaded_catalog().segments
    entries, failed = _adopted(site, archive, differences)
    updated_shards = name_in_shards(archive, entries, differences.lost)
    zips = _made_again(site, archive, differences.missing, segments, failed)
    head, key = archive.store.head, archive.key
    adopted = (item for item in entries if head(key(f"{item.path}.sha256")) is None)
    unhashed = [*differences.unhashed, *adopted]
    for entry in unhashed:
        put_hash_file(archive, entry)
    failed += map(_altered, differences.altered)
    changed = {*differences.stale, *updated_shards}
    numbers = {*differences.shards, *changed} if contents else changed
    unnamed = [
        item
        for item in differences.unnamed
        if shard_number(item.name.blocks) not in differences.lost
    ]
    return Completion(
        looked_at=differences.zips,
        zips=zips,
        hash_files=len(unhashed),
        named=len(unnamed),
        shards=len(differences.lost),
        documents=refresh(archive, sorted(numbers)),
        failed=tuple(failed),
        unpublished=tuple(unpublished(segments, differences, entries)),
    )


def _adopted(
    site: Site, archive: Archive, differences: Differences
) -> tuple[list[Entry], list[Published]]:
    """The entries of ZIPs that no shard names, those of lost shards among them."""
    entries: list[Entry] = []
    failed: list[Published] = []
    adjacent = neighbours(archive, differences.unnamed)
    origin, scratch = segment_origin(site), site.scratch()
    for result in adopt(archive, differences.unnamed, adjacent, origin, scratch):
        if isinstance(result, Entry):
            entries.append(result)
        else:
            failed.append(Published(archive.place(""), Outcome.DAMAGED, reason=str(result)))
    return entries, failed


def _made_again(
    site: Site,
    archive: Archive,
    missing: Sequence[Entry],
    segments: Loaded,
    failed: list[Published],
) -> int:
    """Publish again what is gone: single ZIPs from the warehouse, then bundles from these."""
    singles = (entry for entry in missing if not entry.is_bundle)
    bundles = [entry for entry in missing if entry.is_bundle]
    count = 0
    for _, group in groupby(singles, key=lambda entry: shard_number(entry.blocks)):
        parts = list(_parts(site, archive, list(group), segments, failed))
        count += _put(site, archive, parts, failed)
    return count + _put(site, archive, list(_bundles(site, archive, bundles, failed)), failed)


def _put(
    site: Site, archive: Archive, requests: Sequence[PublishRequest], failed: list[Published]
) -> int:
    report = publish_zips(archive, requests, scratch=site.scratch())
    failed += report.failed
    return report.created + report.identical


def _parts(
    site: Site,
    archive: Archive,
    entries: Sequence[Entry],
    segments: Loaded,
    failed: list[Published],
) -> Iterator[PublishRequest]:
    """The requests for single ZIPs that the warehouse can render to the very text."""
    ranges = {entry.blocks for entry in entries if entry.blocks in segments}
    receipts = {(item.table, item.blocks): item for item in site.warehouse.receipts(ranges)}
    for entry in entries:
        receipt = receipts.get((entry.table, entry.blocks))
        if receipt is None:
            failed.append(_gone(archive, entry, "the warehouse does not hold its segment: load it"))
        elif receipt.sha256 != entry.members[0].sha256:
            what = "the warehouse has other text for it: strata publish --replace puts that there"
            failed.append(_gone(archive, entry, what))
        else:
            request = part_request(site, receipt, segments[entry.blocks])
            _record_revision(archive, entry, request.zip_sha256)
            yield request


def _record_revision(archive: Archive, entry: Entry, sha256: str) -> None:
    """The same text may be deflated to other bytes at another level: that goes on record."""
    if sha256 != entry.sha256:
        now = datetime.now(UTC)
        record(archive, Revision(entry.path, entry.sha256, sha256, _REASON, now))


def _bundles(
    site: Site, archive: Archive, entries: Sequence[Entry], failed: list[Published]
) -> Iterator[PublishRequest]:
    for entry in entries:
        bundle = bundle_of(archive, entry)
        try:
            yield bundle_request(archive, bundle, site.exporter.proofs, site.settings.name_style)
        except (RangeError, IntegrityError) as error:
            failed.append(_gone(archive, entry, str(error)))


def _gone(archive: Archive, entry: Entry, why: str) -> Published:
    reason = f"{archive.place(entry.path)} is gone and cannot be made again: {why}"
    return Published(entry.path.rpartition("/")[2], Outcome.DAMAGED, reason=reason)


def _altered(entry: Entry) -> Published:
    reason = (
        f"it has not the {entry.bytes} bytes that its entry says: strata publish --replace REASON "
        f"--table {entry.table} --blocks {entry.blocks} puts the right ones there"
    )
    return Published(entry.path.rpartition("/")[2], Outcome.CONFLICT, reason=reason)
