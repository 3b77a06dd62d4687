"""`strata publish`: publish what is loaded and not in the archive yet, without Dagster."""

from __future__ import annotations

import click

from exporters.publish import PublishReport
from pipelines.batches import plan_batches
from pipelines.commands.options import archive_option, json_option, open_site, warehouse_option
from pipelines.display import Screen, size_text
from pipelines.failures import FINDINGS, OK
from pipelines.publishing import publish_segments, publish_windows, settle_archive
from pipelines.site import Site
from pipelines.standing import unpublished_segments


@click.command("publish", short_help="Publish loaded segments to the archive.")
@warehouse_option
@archive_option
@json_option
def command(warehouse: str | None, archive: str | None, as_json: bool) -> int:
    """Publish the 15 tables of every loaded segment that the archive lacks, and due windows.

    What is there already is left alone. Where other bytes stand in the place of a ZIP it is named,
    the rest goes on, and the exit code is 1.
    """
    screen = Screen(as_json)
    site = open_site(warehouse=warehouse, archive=archive)
    settle_archive(site)
    reports = _publish(site, screen)
    failed = [one for report in reports for one in report.failed]
    created = sum(report.created for report in reports)
    size = sum(report.bytes for report in reports)
    screen.table("not published", ("file", "reason"), ((one.name, one.reason) for one in failed))
    screen.show(
        f"{created} ZIPs published to {site.store.describe()}: {size_text(size)}"
        if created
        else "Nothing new to publish."
    )
    screen.document(
        {
            "created": created,
            "identical": sum(report.identical for report in reports),
            "bytes": size,
            "failed": [{"file": one.name, "reason": one.reason} for one in failed],
        }
    )
    return FINDINGS if failed else OK


def _publish(site: Site, screen: Screen) -> list[PublishReport]:
    wanted = unpublished_segments(site)
    keys = [blocks.key for blocks in wanted]
    reports = []
    with screen.progress("publishing") as advance:
        for batch in plan_batches(wanted, keys, site.settings.batch):
            reports.append(publish_segments(site, batch.segments).report)
            advance(reports[-1].bytes)
        reports.append(publish_windows(site))
    return reports
