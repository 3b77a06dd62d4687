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
from pipelines.site.ids import IdReport
from pipelines.site.status import SiteStatus, site_status
from transforms.blocks import BlockRange, contiguous_runs, gaps_between

_SINGLE_WRITER = (
    "one writer only (STRATA_SINGLE_WRITER): where a bucket's service ignores conditions, nothing "
    "keeps two writers apart"
)


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
    status = site_status(site)
    places = {
        "source": site.source.describe(),
        "warehouse": site.warehouse.describe(),
        "archive": site.store.describe(),
    }
    opened = site.warehouse.shown()
    catalog = site.warehouse.catalog()
    lost = catalog.lost if catalog else ()
    _show(screen, status, places)
    ids = status.ids
    _show_ids(screen, ids)
    if site.settings.single_writer:
        screen.show(_SINGLE_WRITER)
    screen.table(
        "lost volumes: run strata repair, then strata load",
        ("volume", "blocks"),
        ((volume.key, volume.blocks) for volume in lost),
    )
    if opened is not None:
        made = "" if opened.is_new else ", once strata sql 'from blocks limit 5' has made it new"
        screen.show(f"open with duckdb -readonly {opened.path}{made}")
    screen.document(
        {
            **places,
            **_facts(status),
            "ids": _id_facts(ids),
            "single_writer": site.settings.single_writer,
            "open_with": opened and str(opened.path),
            "lost": [volume.key for volume in lost],
        }
    )


def _show(screen: Screen, status: SiteStatus, places: dict[str, str]) -> None:
    chain = status.chain_id or "no chain yet"
    screen.show(chain)
    screen.table(
        "",
        ("", "segments", "blocks", "gaps", "place"),
        (
            (what, len(held), _runs(held), _gaps(held), places[place])
            for what, place, held in (
                ("found", "source", status.found),
                ("loaded", "warehouse", status.loaded),
                ("published", "archive", status.published),
            )
        ),
    )
    screen.table("quarantined", ("file", "reason"), status.refused.items())
    until = status.complete_until
    screen.show(f"complete until block {until}" if until is not None else "nothing is complete yet")
    screen.show(f"{status.blocks_behind} blocks behind the newest segment")


def _show_ids(screen: Screen, ids: IdReport) -> None:
    runs = ", ".join(str(run.blocks) for run in ids.chain.runs)
    if runs:
        screen.show(f"chain of the network's ids unbroken over {runs}")
    if ids.chain.unknown:
        unknown = ", ".join(map(str, ids.chain.unknown))
        screen.show(f"loaded by an earlier release, which computed no ids: {unknown}")
    screen.table("contradictions of the chain of ids", ("where", "what"), ids.findings())


def _id_facts(ids: IdReport) -> dict[str, Any]:
    return {
        "unbroken": _listed(run.blocks for run in ids.chain.runs),
        "unknown": _listed(ids.chain.unknown),
        "contradictions": [{"where": where, "what": what} for where, what in ids.findings()],
    }


def _facts(status: SiteStatus) -> dict[str, Any]:
    found = status.found
    return {
        "chain_id": status.chain_id,
        "segments": {
            "found": _listed(found),
            "loaded": _listed(status.loaded),
            "published": _listed(status.published),
            "to_do": _listed(status.to_do),
        },
        "gaps": {
            "found": _listed(gaps_between(contiguous_runs(found))),
            "loaded": _listed(gaps_between(contiguous_runs(status.loaded))),
            "published": _listed(gaps_between(contiguous_runs(status.published))),
        },
        "quarantined": [
            {"file": file, "reason": reason} for file, reason in status.refused.items()
        ],
        "complete_until": status.complete_until,
        "blocks_behind": status.blocks_behind,
    }


def _listed(ranges: Iterable[BlockRange]) -> list[str]:
    return [str(blocks) for blocks in ranges]


def _runs(segments: Iterable[BlockRange]) -> str:
    return ", ".join(map(str, contiguous_runs(segments))) or "none"


def _gaps(segments: Iterable[BlockRange]) -> str:
    return ", ".join(map(str, gaps_between(contiguous_runs(segments)))) or "none"
