"""`strata run`: what Dagster does by itself, now and here: load and publish everything new."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines.commands.options import (
    archive_option,
    json_option,
    open_site,
    source_option,
    warehouse_option,
)
from pipelines.display import Screen
from pipelines.failures import OK
from pipelines.settings import dagster_home
from pipelines.standing import standing_of
from transforms.sample import write_sample


@click.command("run", short_help="Load and publish everything new, through Dagster.")
@source_option
@warehouse_option
@archive_option
@json_option
def command(source: str | None, warehouse: str | None, archive: str | None, as_json: bool) -> int:
    """Load and publish every new segment as Dagster runs; `make ui` shows them.

    Without a source, a sample history is made and used. Run again, it changes nothing. The exit
    code is 1 as long as the source has a segment that cannot be used.
    """
    screen = Screen(as_json)
    site = open_site(source, warehouse, archive)
    if site.settings.embedded and not Path(site.settings.source).exists():
        screen.say(f"Writing a sample history to {site.settings.source}")
        write_sample(Path(site.settings.source))
    standing = standing_of(site)
    site.warehouse.record_refusals(standing.survey)
    if standing.to_do:
        # Dagster takes a second to import, which a run with nothing to do need not pay.
        from pipelines.running import run_everything

        with screen.progress("loading") as advance:
            run_everything(site.watched(advance), dagster_home(), screen.say)
    return OK
