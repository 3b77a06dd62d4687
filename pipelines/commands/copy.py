"""`strata copy`: the warehouse, or some blocks and tables of it, as one DuckDB file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from exporters.archive.figures import size_text
from pipelines.commands.display import Screen
from pipelines.commands.options import blocks_of, open_site, screen_option, warehouse_option
from transforms.bounds import Bound, lower_bound, upper_bound
from transforms.errors import IntegrityError
from transforms.scratch import scratch_folder, sweep_scratch
from transforms.warehouse.questions.warehouse_copy import (
    UNFINISHED,
    check_file,
    choose_segments,
    write_copy,
)
from transforms.warehouse.warehouse_address import open_warehouse

if TYPE_CHECKING:
    from transforms.warehouse.warehouse import Warehouse

Ends = tuple[Bound | None, Bound | None]


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
@click.option(
    "--archive",
    metavar="PLACE",
    help="Copy what this archive has: a folder, s3://<bucket>/<prefix>, or https://.",
)
@click.option("--chain", metavar="ID", help="The archive's chain [the only one].")
@screen_option
def command(
    file: Path,
    blocks: str | None,
    times: str | None,
    tables: str | None,
    warehouse: str | None,
    archive: str | None,
    chain: str | None,
    screen: Screen,
) -> None:
    """Write FILE, a DuckDB file with tables under the names of the warehouse, which needs no other.

    DuckDB 1.5 and newer open it anywhere. Of history it has whole segments, and it says which; the
    current state is that of the newest segment, whatever the range. With --archive, what it needs
    is fetched from an archive with a lake, each CSV held against its published hash; its tables
    have the columns of these segments.

    FILE may be an earlier copy, which is replaced when the new one is whole. What a killed one
    leaves beside FILE (.strata-copy-*) is removed by the next one there.
    """
    if blocks and times:
        raise click.UsageError("give --blocks or --times, not both")
    if warehouse and archive:
        raise click.UsageError("copy from --warehouse or from --archive")
    names, ends = _names(tables), _ends(blocks, times)
    with _opened(warehouse, archive, chain, file, ends, screen) as source, source.one_look():
        choice = choose_segments(source, *ends)
        screen.message(f"taking {choice}")
        with screen.counts("copying") as count:
            rows = write_copy(
                source, file, choice.blocks, names, lambda done, total: count("tables", done, total)
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


def _ends(blocks: str | None, times: str | None) -> Ends:
    if times:
        begin, _, end = times.partition("..")
        return lower_bound(begin), upper_bound(end)
    if span := blocks_of(blocks):
        return Bound(str(span.first), block=span.first), Bound(str(span.last), block=span.last)
    return None, None


@contextmanager
def _opened(
    warehouse: str | None,
    address: str | None,
    chain: str | None,
    file: Path,
    ends: Ends,
    screen: Screen,
) -> Iterator[Warehouse]:
    """The warehouse, or one beside FILE, for the length of a block, of what an archive has."""
    site = open_site(warehouse=warehouse)
    if address is None:
        yield site.warehouse
        return
    # Who copies a warehouse needs none of this.
    from exporters.fetching.fetch_folder import choose_chain, opened_archive
    from exporters.fetching.range_plan import choose_blocks
    from exporters.loading.archive_load import load_archive

    check_file(file)  # before all is fetched
    folder = file.absolute().parent
    sweep_scratch(folder, UNFINISHED)
    with (
        opened_archive(address, site.settings.store_options) as store,
        scratch_folder(folder, UNFINISHED) as scratch,
    ):
        archive = choose_chain(store, chain)
        blocks = choose_blocks(archive, "blocks", *ends) if any(ends) else None
        copied = open_warehouse(scratch / "warehouse", memory_mb=site.settings.memory_mb)
        if refused := load_archive(copied, archive, screen.progress, blocks).not_taken:
            raise IntegrityError(f"blocks {refused[0].blocks}: {refused[0].reason}")
        yield copied
