"""`strata compact`: merge small neighbouring volumes, so that look-ups ask few files."""

from __future__ import annotations

import click

from pipelines.commands.display import Screen
from pipelines.commands.options import open_site, screen_option, warehouse_option


@click.command("compact")
@warehouse_option
@screen_option
def command(warehouse: str | None, screen: Screen) -> None:
    """Merge runs of neighbouring volumes of similar size until nothing is worth merging.

    Readers and loads are not disturbed, exports do not change by a byte. The old files go a day
    later, when nobody reads them any more.
    """
    site = open_site(warehouse=warehouse)
    merged = site.warehouse.compact()
    count = len(site.loaded_catalog().snapshot.history)
    screen.table("merged", ("volume",), ((key,) for key in merged))
    screen.show(f"{count} volumes of history" if merged else f"Nothing to merge: {count} left")
    screen.document({"merged": [{"volume": key} for key in merged], "volumes": count})
