"""`strata sql`: ask the warehouse, read-only, while loads go on."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from pipelines.commands.asking import (
    asked_extent,
    blocks_option,
    show_rows,
    times_option,
    warn_of_lost,
)
from pipelines.commands.display import Screen
from pipelines.commands.options import json_option, open_site, warehouse_option
from transforms.duck import check_folder
from transforms.scratch import temporary_folder
from transforms.warehouse.manifests.shapes import Extent
from transforms.warehouse.questions.queries import copy_query
from transforms.warehouse.warehouse import Warehouse


@click.command("sql")
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
@blocks_option
@times_option
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
    """Run QUERY on the newest snapshot: `select * from orders limit 5`.

    Rows outside of --blocks and --times may show, from the same volumes: the query says which rows
    it wants. CSV is written by the rules of the exports, so NULL and the empty string stay apart.
    """
    if form == "table" and out:
        raise click.UsageError("--out needs --format csv or --format parquet")
    if form != "table" and as_json:
        raise click.UsageError("--json and --format exclude each other")
    site = open_site(warehouse=warehouse)
    extent = asked_extent(blocks, times)
    warn_of_lost(site.warehouse, Screen(as_json))
    if form == "table":
        show_rows(site.warehouse, query, extent, Screen(as_json))
    else:
        _write(site.warehouse, query, extent, form, out)


def _write(
    warehouse: Warehouse, query: str, extent: Extent | None, form: str, out: Path | None
) -> None:
    """Write to a file beside `out` first, so that it is never half there."""
    if out is None and form == "parquet" and sys.stdout.isatty():
        raise click.UsageError("Parquet is not for a terminal: give --out")
    if out:
        check_folder(out.parent.absolute())
    with temporary_folder(out.parent if out else None, ".strata-") as scratch:
        path = scratch / "rows"
        copy_query(warehouse, query, path, form, extent)
        if out:
            path.replace(out)
        else:
            with path.open("rb") as rows:
                shutil.copyfileobj(rows, sys.stdout.buffer)
