"""Which volumes a question of `sql` and `shell` opens, and its rows on the screen."""

from __future__ import annotations

import math
from itertools import islice

import click

from pipelines.commands.display import Screen
from pipelines.commands.options import blocks_of
from transforms.bounds import lower_bound, upper_bound
from transforms.errors import RangeError
from transforms.warehouse.log.losses import LostRowsError
from transforms.warehouse.manifests.shapes import Extent, Times
from transforms.warehouse.questions.queries import query_rows
from transforms.warehouse.warehouse import Warehouse

_SHOWN = 100  # rows of a table on the screen
_NAMED = 10  # of the volumes that are lost

blocks_option = click.option(
    "--blocks",
    metavar="FIRST-LAST",
    help="Open only the volumes of history that hold any of these blocks: a query about a few "
    "blocks of a long history reads, or fetches, no more.",
)
times_option = click.option(
    "--times",
    metavar="FROM..TO",
    help="The same by times in UTC, both included: 2023-06-01..2023-06-02, or with 'T12:30:00'.",
)


def asked_extent(blocks: str | None, times: str | None) -> Extent | None:
    """What `--blocks` and `--times` ask for. Raises `click.UsageError` where that is no extent."""
    if not (blocks or times):
        return None
    return Extent(blocks_of(blocks), _times(times) if times else None)


def warn_of_lost(warehouse: Warehouse, screen: Screen) -> None:
    """Say that rows are missing, where volumes of a folder are; those of a bucket raise by name."""
    catalog = warehouse.catalog() if warehouse.in_folder else None
    lost = catalog.lost if catalog else ()
    if catalog and (losses := catalog.snapshot.losses):
        screen.message(f"warning: rows are missing: {LostRowsError(warehouse.describe(), losses)}")
    if lost:
        blocks = ", ".join(str(volume.blocks) for volume in lost[:_NAMED])
        more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        screen.message(
            f"warning: rows are missing: of {warehouse.describe()} {len(lost)} volumes are lost "
            f"(blocks {blocks}{more}): strata repair, then strata load bring them back"
        )


def _times(text: str) -> Times:
    begin, _, end = text.partition("..")
    try:
        first, last = lower_bound(begin).micros, upper_bound(end).micros
    except RangeError:
        first = last = None
    if first is None or last is None:  # no time, or the height of a block
        raise click.UsageError(
            f"--times is {text!r}: give two times in UTC, like 2023-06-01..2023-06-02"
        )
    if last < first:
        raise click.UsageError(f"--times is {text!r}: the second time is before the first")
    return first, last


def show_rows(warehouse: Warehouse, query: str, extent: Extent | None, screen: Screen) -> None:
    """Show the first rows of a query; all of them as JSON. Raises `ConfigError` for wrong SQL."""
    with query_rows(warehouse, query, extent) as (names, rows):
        shown = list(rows) if screen.json else list(islice(rows, _SHOWN + 1))
    more = not screen.json and len(shown) > _SHOWN
    if more:
        shown.pop()
    screen.table("", names, (map(_cell, row) for row in shown))
    if more:
        screen.message(f"The first {_SHOWN} rows; --format csv or parquet gives all of them.")
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
