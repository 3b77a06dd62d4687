"""`strata status`: what the source, the warehouse and the archive hold, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from pipelines.commands.display import Screen
from pipelines.commands.options import (
    archive_option,
    json_option,
    open_site,
    source_option,
    warehouse_option,
)
from pipelines.site.status import Standing, standing_of
from transforms.blocks import BlockRange, contiguous_runs, gaps_between


@click.command("status", short_help="Show segments, gaps, quarantine, loaded, published.")
@source_option
@warehouse_option
@archive_option
@json_option
def command(source: str | None, warehouse: str | None, archive: str | None, as_json: bool) -> None:
    """Show how far each segment has come, from the places themselves; nothing is changed.

    The exit code is 0 also where something is quarantined or missing: it is shown, not judged.
    """
    screen = Screen(as_json)
    site = open_site(source, warehouse, archive)
    standing = standing_of(site)
    places = {
        "source": site.source.describe(),
        "warehouse": str(site.warehouse.root),
        "archive": site.store.describe(),
    }
    _tell(screen, standing, places)
    screen.document({**places, **_facts(standing)})


def _tell(screen: Screen, standing: Standing, places: dict[str, str]) -> None:
    chain = standing.chain_id or "no chain yet"
    screen.show(chain)
    screen.table(
        "",
        ("", "segments", "blocks", "gaps", "place"),
        (
            (what, len(held), _runs(held), _gaps(held), places[place])
            for what, place, held in (
                ("found", "source", [file.blocks for file in standing.survey.inventory.segments]),
                ("loaded", "warehouse", list(standing.loaded)),
                ("published", "archive", sorted(standing.published)),
            )
        ),
    )
    screen.table("quarantined", ("file", "reason"), standing.refused.items())
    until = standing.complete_until
    screen.show(f"complete until block {until}" if until is not None else "nothing is complete yet")
    screen.show(f"{standing.blocks_behind} blocks behind the newest segment")


def _facts(standing: Standing) -> dict[str, Any]:
    found = [file.blocks for file in standing.survey.inventory.segments]
    return {
        "chain_id": standing.chain_id,
        "segments": {
            "found": _listed(found),
            "loaded": _listed(standing.loaded),
            "published": _listed(sorted(standing.published)),
            "to_do": _listed(standing.to_do),
        },
        "gaps": {
            "found": _listed(gaps_between(contiguous_runs(found))),
            "loaded": _listed(gaps_between(contiguous_runs(standing.loaded))),
            "published": _listed(gaps_between(contiguous_runs(standing.published))),
        },
        "quarantined": [
            {"file": file, "reason": reason} for file, reason in standing.refused.items()
        ],
        "complete_until": standing.complete_until,
        "blocks_behind": standing.blocks_behind,
    }


def _listed(ranges: Iterable[BlockRange]) -> list[str]:
    return [str(blocks) for blocks in ranges]


def _runs(segments: Iterable[BlockRange]) -> str:
    return ", ".join(map(str, contiguous_runs(segments))) or "none"


def _gaps(segments: Iterable[BlockRange]) -> str:
    return ", ".join(map(str, gaps_between(contiguous_runs(segments)))) or "none"
