"""`strata sql`: ask the warehouse, read-only, while loads go on."""

from __future__ import annotations

import math
import shlex
from itertools import islice

import click

from pipelines.commands.display import Screen
from pipelines.commands.options import open_site, screen_option, warehouse_option
from transforms.warehouse.log.losses import LostRowsError
from transforms.warehouse.questions.queries import query_rows
from transforms.warehouse.warehouse import Warehouse

_SHOWN = 100  # rows of a table on the screen


@click.command("sql")
@click.argument("query", nargs=-1, required=True)
@warehouse_option
@screen_option
def command(query: tuple[str, ...], warehouse: str | None, screen: Screen) -> None:
    """Run QUERY on the newest snapshot: `select * from orders limit 5`.

    A table of the first rows, or all as JSON. As CSV: `strata shell -csv -c "select ..."`; as a
    file: `strata shell -c "copy (select ...) to 'rows.parquet'"`.
    """
    text = " ".join(query)
    if len(query) > 1:
        raise click.UsageError(f"quote the query: strata sql {shlex.quote(text)}")
    site = open_site(warehouse=warehouse)
    with site.warehouse.one_look():
        warn_of_lost(site.warehouse, screen)
        show_rows(site.warehouse, text, screen)


def warn_of_lost(warehouse: Warehouse, screen: Screen) -> None:
    """Say that rows were loaded that the warehouse has no more."""
    snapshot = warehouse.snapshot()
    if snapshot.losses:
        lost = LostRowsError(warehouse.describe(), snapshot.losses)
        screen.message(f"warning: rows are missing: {lost}")


def show_rows(warehouse: Warehouse, query: str, screen: Screen) -> None:
    """Show the first rows of a query; all of them as JSON. Raises `ConfigError` for wrong SQL."""
    with query_rows(warehouse, query) as (names, rows):
        shown = list(rows) if screen.json else list(islice(rows, _SHOWN + 1))
    more = not screen.json and len(shown) > _SHOWN
    if more:
        shown.pop()
    screen.table("", names, (map(_cell, row) for row in shown))
    if more:
        screen.message(f"The first {_SHOWN} rows; --json gives all of them.")
    elif not shown:
        screen.show("No rows.")
    screen.document({"columns": names, "rows": [[*map(_json, row)] for row in shown]})


def _cell(value: object) -> object:
    """A value for the table, which shows NULL as that: the text NULL, quoted or not, is quoted."""
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) and value.strip("'") == "NULL" else value


def _json(value: object) -> object:
    """A value for JSON, which has neither NaN nor infinities: those are text."""
    is_text = isinstance(value, float) and not math.isfinite(value)
    return str(value) if is_text else value
