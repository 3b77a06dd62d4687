"""`strata copy`: the warehouse, or some blocks and tables of it, as one DuckDB file."""

from __future__ import annotations

from pathlib import Path

import click

from exporters.archive.figures import size_text
from pipelines.commands.asking import asked_extent
from pipelines.commands.display import Screen
from pipelines.commands.options import json_option, open_site, warehouse_option
from transforms.warehouse.questions.warehouse_copy import choose_segments, write_copy


@click.command("copy")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--blocks", metavar="FIRST-LAST", help="Only the segments with these blocks.")
@click.option(
    "--times",
    metavar="FROM..TO",
    help="Only the segments with these times in UTC, both included: 2023-06-01..2023-06-02, or "
    "with 'T12:30:00'.",
)
@click.option("--tables", metavar="A,B", help="Only these tables [all].")
@warehouse_option
@json_option
def command(
    file: Path,
    blocks: str | None,
    times: str | None,
    tables: str | None,
    warehouse: str | None,
    as_json: bool,
) -> None:
    """Write FILE, a DuckDB file with tables under the names of the warehouse, which needs no other.

    DuckDB 1.5 and newer open it anywhere. Of history it has whole segments, and it says which; the
    current state is that of the newest segment, whatever the range. FILE may be an earlier copy,
    which is replaced when the new one is whole. What a killed one leaves beside FILE
    (.strata-copy-*) is removed by the next one there.
    """
    if blocks and times:
        raise click.UsageError("give --blocks or --times, not both")
    names = _names(tables)
    screen = Screen(as_json)
    site = open_site(warehouse=warehouse)
    with site.warehouse.one_look():
        choice = choose_segments(site.warehouse, asked_extent(blocks, times))
        screen.message(f"taking {choice}")
        with screen.counts("copying") as count:
            rows = write_copy(
                site.warehouse,
                file,
                choice.blocks,
                names,
                lambda done, total: count("rows", done, total),
            )
    size = file.stat().st_size
    screen.table("", ("table", "rows"), rows.items())
    screen.show(f"{file}: {size:,} bytes ({size_text(size)})")
    screen.document({"path": str(file), "bytes": size, "chosen": choice.facts(), "tables": rows})


def _names(tables: str | None) -> list[str]:
    if tables is None:
        return []
    names = [name for part in tables.split(",") if (name := part.strip())]
    if not names:
        raise click.UsageError("--tables names no table: give some, like orders,trades")
    return names
