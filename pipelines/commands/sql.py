"""`strata sql`: ask the warehouse, read-only, while loads go on."""

from __future__ import annotations

import click

from pipelines.commands.asking import show_rows, warn_of_lost
from pipelines.commands.display import Screen
from pipelines.commands.options import json_option, open_site, warehouse_option


@click.command("sql")
@click.argument("query")
@warehouse_option
@json_option
def command(query: str, warehouse: str | None, as_json: bool) -> None:
    """Run QUERY on the newest snapshot: `select * from orders limit 5`.

    A table of the first rows, or all as JSON. As CSV: `strata shell -csv -c "select ..."`; as a
    file: `strata shell -c "copy (select ...) to 'rows.parquet'"`.
    """
    site, screen = open_site(warehouse=warehouse), Screen(as_json)
    with site.warehouse.one_look():
        warn_of_lost(site.warehouse, screen)
        show_rows(site.warehouse, query, screen)
