"""`strata sql`: ask the warehouse, read-only, while loads go on."""

from __future__ import annotations

import math
import re
import shutil
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import click

from pipelines.commands.display import Screen
from pipelines.commands.options import json_option, open_site, warehouse_option
from transforms.blocks import BlockRange
from transforms.duck import check_folder
from transforms.warehouse.queries import copy_query, query_rows
from transforms.warehouse.shapes import Extent, Times
from transforms.warehouse.warehouse import Warehouse

_SHOWN = 100  # rows of a table on the screen


@click.command("sql", short_help="Query the warehouse, read-only.")
@click.argument("query")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "parquet"]),
    default="table",
    help="What to write: a table of the first rows, or all rows as CSV or Parquet.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where CSV or Parquet go [stdout].",
)
@click.option(
    "--blocks",
    metavar="FIRST-LAST",
    help="Open only the volumes of history that hold any of these blocks: a query about a few "
    "blocks of a long history reads, or fetches, no more.",
)
@click.option(
    "--times",
    metavar="FROM..TO",
    help="The same by times in UTC, both included: 2023-06-01..2023-06-02, or with 'T12:30:00'.",
)
@warehouse_option
@json_option
def command(
    query: str,
    form: str,
    out: Path | None,
    blocks: str | None,
    times: str | None,
    warehouse: str | None,
    as_json: bool,
) -> None:
    """Run QUERY on the newest generation: `select * from orders limit 5`.

    Rows outside of --blocks and --times may show, from the same volumes: the query says which rows
    it wants. CSV is written by the rules of the exports, so NULL and the empty string stay apart.
    """
    if form == "table" and out:
        raise click.UsageError("--out needs --format csv or --format parquet")
    if form != "table" and as_json:
        raise click.UsageError("--json and --format exclude each other")
    site = open_site(warehouse=warehouse)
    asked = None
    if blocks or times:
        asked = Extent(_blocks(blocks) if blocks else None, _times(times) if times else None)
    if form == "table":
        _show(site.warehouse, query, asked, Screen(as_json))
    else:
        _write(site.warehouse, query, asked, form, out)


def _blocks(text: str) -> BlockRange:
    found = re.fullmatch(r"(\d+)-(\d+)", text)
    if found is None or int(found[2]) < int(found[1]):
        raise click.UsageError(f"--blocks is {text!r}: give two heights, like 1-5000")
    return BlockRange(int(found[1]), int(found[2]))


def _times(text: str) -> Times:
    try:
        first, last = (
            datetime.fromisoformat(part).replace(tzinfo=UTC) for part in text.split("..")
        )
    except ValueError:
        raise click.UsageError(
            f"--times is {text!r}: give two times in UTC, like 2023-06-01..2023-06-02"
        ) from None
    if len(text.rpartition("..")[2]) == len("2023-06-01"):
        last += timedelta(days=1) - timedelta(microseconds=1)  # a date is a whole day
    if last < first:
        raise click.UsageError(f"--times is {text!r}: the second time is before the first")
    return _micros(first), _micros(last)


def _micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _show(warehouse: Warehouse, query: str, extent: Extent | None, screen: Screen) -> None:
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
    screen.document({"columns": names, "rows": [_json(row) for row in shown]})


def _cell(value: object) -> object:
    """A value for the table, which shows NULL as that: the text NULL, quoted or not, is quoted."""
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) and value.strip("'") == "NULL" else value


def _json(value: object) -> object:
    """A value for JSON, which has neither NaN nor infinities: those are text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_json(one) for one in value]
    if isinstance(value, dict):
        return {name: _json(one) for name, one in value.items()}
    return value


def _write(
    warehouse: Warehouse, query: str, extent: Extent | None, form: str, out: Path | None
) -> None:
    """Write to a file beside `out` first, so that it is never half there."""
    if out is None and form == "parquet" and sys.stdout.isatty():
        raise click.UsageError("Parquet is not for a terminal: give --out")
    if out:
        check_folder(out.parent.absolute())
    with tempfile.TemporaryDirectory(prefix=".strata-", dir=out.parent if out else None) as scratch:
        path = Path(scratch, "rows")
        copy_query(warehouse, query, path, form, extent)
        if out:
            path.replace(out)
        else:
            with path.open("rb") as rows:
                shutil.copyfileobj(rows, sys.stdout.buffer)
