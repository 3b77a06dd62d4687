"""Making again whatever is missing of what was published: its segments are published again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from exporters.archive.archive import Archive
from exporters.archive.documents import refresh
from exporters.archive.entries import Entry
from exporters.archive.shards import shard_number, shard_stem
from exporters.archive.sound_documents import is_complete
from exporters.publishing.comparing import Differences
from exporters.publishing.publication import Outcome, Published, PublishReport, begin_again
from pipelines.batches import plan_batches
from pipelines.site.completing import Completion
from pipelines.site.publishing import publish_segments
from pipelines.site.site import Site
from transforms.block_range import BlockRange
from transforms.coverage import difference, union


def make_again(
    site: Site,
    archive: Archive,
    differences: Differences,
    unpublished: Sequence[BlockRange],
    *,
    contents: bool,
) -> Completion:
    """Make again what an archive lacks; see `pipelines.site.completing.complete_archive`."""
    catalog = site.loaded_catalog()
    segments, publisher = catalog.blocks, site.published_archive(catalog)
    refused = dict(_begin_shards(archive, differences, segments))
    lost = {*differences.lost}.difference(refused)
    gone = {entry.blocks for entry in differences.missing}
    again = [run for run in segments if run in gone or shard_number(run) in lost]
    numbers = {*differences.stale, *lost}
    if contents or not is_complete(archive):
        numbers |= {*differences.shards}
    reports = list(_published(site, again, {entry.path for entry in differences.missing}))
    not_loaded = (e for e in differences.missing if e.blocks in gone.difference(segments))
    failed = (
        *refused.values(),
        *map(_altered, differences.altered),
        *map(_not_loaded, not_loaded),
        *(failure for report in reports for failure in report.failed),
    )
    made = len(lost) + sum(report.created + report.identical for report in reports)
    return Completion(
        looked_at=differences.zips,
        made=made + refresh(publisher, sorted(numbers.difference(refused))),
        failed=failed,
        unpublished=tuple(
            run for run in unpublished if run not in again and shard_number(run) not in refused
        ),
    )


def _begin_shards(
    archive: Archive, differences: Differences, segments: Sequence[BlockRange]
) -> Iterator[tuple[int, Published]]:
    """Empty lost shards whose ZIPs are all of loaded segments; yields the others and why not."""
    for number in differences.lost:
        named = union(run for run in differences.unnamed if shard_number(run) == number)
        if lacking := difference(named, union(segments)):
            place = archive.place(f"{shard_stem(number)}.*.json")
            what = ", ".join(map(str, lacking[:3]))
            reason = (
                f"{place} is damaged or gone, and blocks {what} of its ZIPs are not loaded: load "
                "them, then run strata publish, or bring it back from a mirror or a backup"
            )
            yield number, Published(place, Outcome.DAMAGED, reason=reason)
        else:
            begin_again(archive, number)


def _published(
    site: Site, segments: Sequence[BlockRange], gone: Collection[str]
) -> Iterator[PublishReport]:
    """Publish segments again, also the ZIPs at these paths that are gone."""
    for batch in plan_batches(segments, site.settings.batch):
        yield publish_segments(site, batch.segments, gone=gone).report


def _not_loaded(entry: Entry) -> Published:
    reason = (
        "it or its hash file is gone, and the warehouse does not hold its segment: load it, then "
        "run strata publish"
    )
    return Published(entry.path.rpartition("/")[2], Outcome.DAMAGED, reason=reason)


def _altered(entry: Entry) -> Published:
    reason = (
        f"it has not the {entry.bytes} bytes that its entry says: strata publish --replace REASON "
        f"--table {entry.table} --blocks {entry.blocks} puts the right ones there"
    )
    return Published(entry.path.rpartition("/")[2], Outcome.CONFLICT, reason=reason)
