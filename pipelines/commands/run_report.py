"""What `strata run` says at its end: what is there, an answer from it, and where to look next."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from exporters.archive.figures import size_text
from exporters.locations import Locations
from pipelines.commands.display import Screen
from pipelines.site.publication_state import PublishedTable
from pipelines.site.segment_status import SiteStatus
from pipelines.site.site import Site
from transforms.block_range import BlockRange

_SAMPLE_QUERY = (
    "select code, count(*) as trades, min(utc(vega_time)) as first_trade "
    "from trades join strata.markets as market on market.id = market_id group by code order by code"
)


def show_run(
    screen: Screen, site: Site, status: SiteStatus, tables: Sequence[PublishedTable], *, idle: bool
) -> None:
    """Show what a run published, or that nothing was new, and what to do next.

    `tables` are those of the segments that this run published; `idle` means that it had nothing to
    do. Where the sample was published, a query and its result follow.
    """
    if tables:
        screen.show(f"published to {site.store.describe()}")  # a title would be cut into lines
    screen.table(
        "",
        ("table", "ZIPs", "rows", "bytes", "newest blocks"),
        ((t.table, t.zips, t.rows, t.bytes, t.newest.blocks) for t in tables),
    )
    screen.table("cannot be used", ("file", "reason"), status.refused.items())
    for problem in status.problems:
        screen.message(problem)
    if idle:
        screen.show(
            f"Nothing new: {len(status.published)} segments of {status.chain_id or 'no chain'} "
            f"are published, complete until block {status.complete_until or 0}."
        )
    elif tables:
        screen.show(
            f"{status.chain_id} is published, complete until block {status.complete_until or 0}; "
            f"new: {len(tables)} tables in {sum(table.zips for table in tables):,} ZIPs, "
            f"{sum(table.rows for table in tables):,} rows, "
            f"{size_text(sum(table.bytes for table in tables))}."
        )
    if not status.published or screen.json:
        return
    if tables and site.settings.embedded:
        # Only the first run of all asks anything.
        from pipelines.commands.sql import show_rows

        screen.show(f'\n$ strata sql "{_SAMPLE_QUERY}"')
        show_rows(site.warehouse, _SAMPLE_QUERY, screen)
    screen.show("\nNext:")
    for command, purpose in _next_steps(site, status.published[-1]):
        screen.show(f"  {command}  # {purpose}")


def _next_steps(site: Site, newest: BlockRange) -> Iterator[tuple[str, str]]:
    """Commands that work as they are printed, with what each is for."""
    settings, defaults = site.settings, Locations()
    # A command finds the embedded run's places by itself; all others are named.
    options = {
        name: "" if place == default else f" --{name} {shlex.quote(place)}"
        for name, place, default in (
            ("warehouse", settings.warehouse, defaults.warehouse),
            ("archive", settings.archive, defaults.archive),
        )
    }
    places = "".join(options.values())
    program = Path(sys.argv[0])
    if program.name == "strata" and shutil.which("strata") is None:
        folder = shlex.quote(str(program.parent.absolute()))
        yield f"export PATH={folder}:$PATH", "puts strata on the PATH of this terminal"
    yield f"strata sql 'from blocks limit 5'{options['warehouse']}", "SQL over the warehouse"
    yield (
        f"strata export orders {newest.first} {newest.last} --out exports{places}",
        "one table over any range of segments",
    )
    yield f"strata serve{places}", "the archive's pages and the API at http://127.0.0.1:3008"
    if settings.embedded and Path("Makefile").is_file():
        yield "make ui", "the runs and assets in Dagster's web interface"
