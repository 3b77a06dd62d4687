"""`strata publish`: publish what is loaded and not in the archive yet, without Dagster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import click

from exporters.archive.figures import size_text
from exporters.archive.revisions import declare_loss
from exporters.publishing.publication import Outcome, Published, PublishReport
from exporters.publishing.replace import Correction
from pipelines.batches import plan_batches
from pipelines.commands.display import Screen
from pipelines.commands.failures import CONFLICT, DAMAGED, OK
from pipelines.commands.found import show_lost
from pipelines.commands.options import blocks_of, screen_option, site_options
from pipelines.commands.publication_report import show_completion, show_refused
from pipelines.site.completing import Completion, complete_archive
from pipelines.site.publishing import (
    publish_segments,
    replace_published,
)
from pipelines.site.site import Site
from transforms.block_range import BlockRange
from transforms.errors import RangeError
from transforms.tables.registry import HISTORY_TABLES

tables_option = click.option(
    "--table", "tables", multiple=True, help="With --replace: only this table (repeat)."
)
blocks_option = click.option(
    "--blocks", metavar="FROM-TO", help="With --replace: only the segments inside these blocks."
)


def _correction(reason: str | None, tables: Sequence[str], blocks: str | None) -> Correction | None:
    """What is put on record; None without `--replace`, which the other options need."""
    if unknown := sorted({*tables}.difference(HISTORY_TABLES)):
        raise click.UsageError(f"{', '.join(unknown)}: choose from {', '.join(HISTORY_TABLES)}")
    if reason is None and (tables or blocks):
        raise click.UsageError("--table and --blocks say what --replace is about")
    return None if reason is None else Correction(reason, datetime.now(UTC))


def _loaded_inside(site: Site, blocks: str | None) -> list[BlockRange]:
    """The loaded segments that lie in the blocks (None: all). Raises `RangeError` for none."""
    hull = blocks_of(blocks)
    segments = site.warehouse.loaded_catalog().blocks
    inside = [segment for segment in segments if hull is None or hull.holds(segment)]
    if not inside:
        raise RangeError(f"no loaded segment lies in blocks {blocks}")
    return inside


@click.command("publish")
@click.option(
    "--replace",
    "reason",
    metavar="REASON",
    help="Publish anew what is there already; files that differ are replaced and recorded.",
)
@tables_option
@blocks_option
@click.option(
    "--revisions-lost",
    metavar="REASON",
    help="Begin revisions.json anew: the list is lost, and no mirror or backup has it.",
)
@site_options("warehouse", "archive")
@screen_option
def command(
    reason: str | None,
    tables: tuple[str, ...],
    blocks: str | None,
    revisions_lost: str | None,
    site: Site,
    screen: Screen,
) -> int:
    """Publish the 15 tables of every loaded segment that the archive lacks.

    Before that it looks at what the archive has, by a listing, and makes again what is missing: a
    ZIP, a hash file, a shard, the index, a page. What is there already is left alone. Where other
    bytes stand in the place of a ZIP it is named, the rest goes on, and the exit code is 4;
    --replace puts ours there and says so in the list of revisions. Then the lake gets the data
    files of what is published, unless STRATA_LAKE is 0: a table that cannot have them is named.
    """
    correction = _correction(reason, tables, blocks)
    chain_id = site.loaded_catalog().snapshot.chain_id
    published = site.archive(chain_id)
    if revisions_lost is not None:
        declare_loss(published, revisions_lost, datetime.now(UTC))
    site.stage.sweep()
    with screen.counts("looking at") as count:
        completion = complete_archive(site, published, count)
    segments: Sequence[BlockRange] = completion.unpublished
    if correction is None:
        reports = _publish(site, screen, segments)
    else:
        segments = _loaded_inside(site, blocks)
        chosen = [table for table in HISTORY_TABLES if table in (tables or HISTORY_TABLES)]
        reports = [replace_published(site, segments, chosen, correction)]
    refused = _publish_lake(site, screen) if site.settings.lake else None
    failed = [failure for report in reports for failure in report.failed]
    if correction is None:  # else what it found wrong is what was replaced, or was not asked for
        failed = [*completion.failed, *failed]
    _show(screen, site, completion, reports, failed, refused)
    lost = show_lost(screen, site.warehouse.catalog())
    return _exit_code(failed) or (CONFLICT if refused else lost)


def _exit_code(failed: Sequence[Published]) -> int:
    if any(failure.outcome is Outcome.CONFLICT for failure in failed):
        return CONFLICT
    return DAMAGED if failed else OK


def _show(
    screen: Screen,
    site: Site,
    completion: Completion,
    reports: list[PublishReport],
    failed: Sequence[Published],
    refused: Mapping[str, str] | None,
) -> None:
    show_completion(screen, completion)
    created = sum(report.created for report in reports)
    replaced = sum(report.replaced for report in reports)
    size = sum(report.bytes for report in reports)
    screen.table(
        "not published", ("file", "reason"), ((failure.name, failure.reason) for failure in failed)
    )
    again = f", {replaced} replaced" if replaced else ""
    if created or replaced:
        screen.show(
            f"{created} ZIPs published{again} to {site.store.describe()}: {size_text(size)}"
        )
    elif not (failed or refused):
        whole = f": all {completion.looked_at:,} ZIPs and their index are there"
        is_whole = completion.is_nothing and completion.looked_at
        screen.show(f"Nothing new to publish{whole if is_whole else ''}.")
    if refused:
        show_refused(screen, refused)
    elif refused is not None:
        screen.show("The lake has all that is published.")
    screen.document(
        {
            "completed": completion,
            "created": created,
            "replaced": replaced,
            "identical": sum(report.identical for report in reports),
            "bytes": size,
            "failed": [{"file": failure.name, "reason": failure.reason} for failure in failed],
            "lake": {"refused": refused} if refused is not None else None,
        }
    )


def _publish_lake(site: Site, screen: Screen) -> dict[str, str]:
    # What reads Parquet takes its time to import, which whoever has no lake need not pay.
    from pipelines.site.lake_publishing import publish_missing

    with screen.progress("publishing to the lake") as advance:
        return publish_missing(site, advance)


def _publish(site: Site, screen: Screen, segments: Sequence[BlockRange]) -> list[PublishReport]:
    reports, completed = [], 0
    with screen.counts("publishing") as count:
        for batch in plan_batches(segments, site.settings.batch):
            count("segments", completed, len(segments))
            reports.append(publish_segments(site, batch.segments).report)
            completed += len(batch.segments)
            count("segments", completed, len(segments))
    return reports
