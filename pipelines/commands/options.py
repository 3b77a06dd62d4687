"""Options that several commands share, and what they make of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from pipelines.commands.display import Screen
from transforms.block_range import BlockRange
from transforms.errors import SegmentError

if TYPE_CHECKING:
    from pipelines.site.site import Site

source_option = click.option(
    "--source", metavar="PLACE", help="Folder or s3:// address of the segments [STRATA_SOURCE]."
)
warehouse_option = click.option(
    "--warehouse",
    metavar="PLACE",
    help="Folder or s3:// address of the warehouse [STRATA_WAREHOUSE].",
)
archive_option = click.option(
    "--archive", metavar="PLACE", help="Folder or s3:// address of the exports [STRATA_ARCHIVE]."
)
_from_option = click.option(
    "--from",
    "start",
    metavar="WHEN",
    help="First block, date or time in UTC: 5000, 2023-06-01, 2023-06-01T12:30:00Z.",
)
_to_option = click.option(
    "--to", "end", metavar="WHEN", help="The last one, which belongs to it; a date is a whole day."
)
screen_option = click.option(
    "--json",
    "screen",
    is_flag=True,
    callback=lambda _context, _option, is_json: Screen(is_json),
    help="One JSON document on stdout, for programs.",
)
_PLACES = {"source": source_option, "warehouse": warehouse_option, "archive": archive_option}
_Command = Callable[..., Any]


def site_options(*places: str) -> Callable[[_Command], _Command]:
    """Options for these places; the command gets `site`, which they and the environment name."""

    def decorated(command: _Command) -> _Command:
        @wraps(command)
        def opened(**given: Any) -> object:  # noqa: ANN401 - of any option
            options = {place: given.pop(place) for place in places}
            return command(site=open_site(**options), **given)

        for place in reversed(places):
            opened = _PLACES[place](opened)
        return opened

    return decorated


def range_options(command: _Command) -> _Command:
    """`--from` and `--to` as `start` and `end`: blocks, dates or times."""
    return _from_option(_to_option(command))


def blocks_of(text: str | None) -> BlockRange | None:
    """The blocks of the option `--blocks`; None without it. Raises `click.UsageError`."""
    if text is None:
        return None
    try:
        return BlockRange.from_key(text)
    except (SegmentError, ValueError):
        raise click.UsageError(f"--blocks is {text!r}: give two heights, like 1-5000") from None


def open_site(
    source: str | None = None,
    warehouse: str | None = None,
    archive: str | None = None,
    **others: str | None,
) -> Site:
    """The site that options and environment name; nothing is touched yet."""
    # A client that only fetches has none of the packages that these need.
    from exporters.locations import read_locations
    from pipelines.settings import Settings
    from pipelines.site.site import Site

    settings = read_locations(
        Settings, None, source=source, warehouse=warehouse, archive=archive, **others
    )
    return Site(settings)
