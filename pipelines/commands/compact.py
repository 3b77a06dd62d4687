"""`strata compact`: merge small neighbouring volumes, so that look-ups ask few files."""

from __future__ import annotations

import click

from pipelines.commands.display import Screen
from pipelines.commands.options import json_option, open_site, warehouse_option


@click.command("compact")
@warehouse_option
@json_option
def command(warehouse: str | None, as_json: bool) -> None:
    """Merge runs of neighbouring volumes of similar size until nothing is worth merging.

    Large volumes whose rows were sorted in parts, as they were loaded, are sorted as a whole.

    Readers and loads are not disturbed, exports do not change by a byte. The old files go a day
    later, when nobody reads them any more.
    """
    screen = Screen(as_json)
    site = open_site(warehouse=warehouse)
    report = site.warehouse.compact()
    count = len(site.loaded_catalog().history())
    screen.table("merged", ("volume", "made of"), ((new, len(old)) for new, old in report.merged))
    screen.show(
        f"{count} volumes of history" if report.merged else f"Nothing to merge: {count} left"
    )
    screen.document(
        {
            "merged": [{"volume": new, "made_of": list(old)} for new, old in report.merged],
            "volumes": count,
        }
    )
