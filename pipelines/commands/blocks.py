"""`strata blocks`: from times to blocks and back, by the segments that are loaded."""

from __future__ import annotations

import click

from pipelines.commands.display import Screen
from pipelines.commands.options import json_option, open_site, range_options, warehouse_option
from transforms.bounds import rfc3339
from transforms.warehouse.questions.range_choice import (
    TimedWarehouse,
    choose_between,
    segment_times,
)


@click.command("blocks")
@range_options
@click.option("--segments", is_flag=True, help="List every segment with its blocks and times.")
@warehouse_option
@json_option
def command(
    start: str | None, end: str | None, segments: bool, warehouse: str | None, as_json: bool
) -> None:
    """Show which segments lie between two blocks or times, all of them without any.

    A range snaps outwards to whole segments; what was chosen is what the other commands take.
    """
    screen = Screen(as_json)
    timed_warehouse = TimedWarehouse(open_site(warehouse=warehouse).warehouse)
    choice = choose_between(timed_warehouse, start, end)
    screen.show(str(choice))
    facts = choice.facts()
    if segments:
        times = segment_times(timed_warehouse, choice.segments)
        rows = [
            (segment, *(rfc3339(at) for at in times.get(segment, ())))
            for segment in choice.segments
        ]
        screen.table(
            "",
            ("segment", "first time", "last time"),
            ((blocks, *(ends or ("", ""))) for blocks, *ends in rows),
        )
        facts["segments"] = [
            {"blocks": str(blocks), "times": ends or None} for blocks, *ends in rows
        ]
    screen.document(facts)
