"""`strata load`: load what the source has and the warehouse has not, without Dagster."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import click

from exporters.archive.figures import size_text
from pipelines.batches import plan_batches
from pipelines.commands.display import Screen
from pipelines.commands.failures import FINDINGS, OK
from pipelines.commands.options import json_option, open_site, source_option, warehouse_option
from pipelines.site.leftovers import remove_published_parts
from pipelines.site.loading import LoadOutcome, load_segments
from pipelines.site.site import Site
from transforms.block_range import BlockRange
from transforms.warehouse.survey import Survey


@click.command("load")
@source_option
@warehouse_option
@json_option
def command(source: str | None, warehouse: str | None, as_json: bool) -> int:
    """Load every new segment into the warehouse, typed and proven, and stop there.

    A segment that cannot be used goes to quarantine with its reason; the rest goes on. The exit
    code is 1 as long as the source has such a segment, or one that changed after it was loaded.
    """
    screen = Screen(as_json)
    site = open_site(source, warehouse)
    started = time.monotonic()
    survey = site.warehouse.survey(site.source)
    site.warehouse.record_refusals(survey)
    remove_published_parts(site)
    total = sum(file.info.size for file in survey.pending)
    with screen.progress("loading", total) as advance:
        outcomes = list(
            _load(site.with_progress(advance), [file.blocks for file in survey.pending])
        )
    if not survey.pending:  # a load that was killed at its very end has left the rest to us
        site.sweep()
        site.warehouse.show()
    refused = _refused(site, survey)
    _show(screen, refused, outcomes, time.monotonic() - started)
    return FINDINGS if refused else OK


def _refused(site: Site, survey: Survey) -> dict[str, str]:
    """The files that cannot be used, with their reasons, by key: those of before and of now."""
    reasons = {refusal.key: refusal.reason for refusal in survey.refused}
    reasons |= {file.key: file.reason for file in site.warehouse.quarantined()}
    return dict(sorted(reasons.items()))


def _load(site: Site, segments: Sequence[BlockRange]) -> Iterator[LoadOutcome]:
    keys = [blocks.key for blocks in segments]
    for batch in plan_batches(segments, keys, site.settings.batch):
        yield load_segments(site, batch.segments)


def _show(
    screen: Screen, refused: dict[str, str], outcomes: Sequence[LoadOutcome], seconds: float
) -> None:
    counts = [row for outcome in outcomes for row in _loaded(outcome)]
    screen.table(
        "loaded",
        ("blocks", "segments", "rows", "csv bytes"),
        (
            (BlockRange(rows[0][0].first, rows[-1][0].last), len(rows), *_sums(rows))
            for rows in (list(_loaded(outcome)) for outcome in outcomes)
            if rows
        ),
    )
    screen.table("cannot be used", ("file", "reason"), refused.items())
    rows, size = _sums(counts)
    screen.show(
        f"{len(counts)} segments loaded: {rows:,} rows, {size_text(size)} of CSV in {seconds:.1f} s"
        if counts
        else "Nothing new to load."
    )
    screen.document(
        {
            "loaded": [
                {"segment": str(blocks), "rows": rows, "bytes": size}
                for blocks, rows, size in counts
            ],
            "quarantined": [{"file": key, "reason": reason} for key, reason in refused.items()],
            "seconds": round(seconds, 3),
        }
    )


def _loaded(outcome: LoadOutcome) -> Iterator[tuple[BlockRange, int, int]]:
    """The segments that are in the warehouse now, with their rows and CSV bytes."""
    for blocks in outcome.segments:
        if blocks not in outcome.failures:
            mine = outcome.receipts_of(blocks)
            yield blocks, sum(r.rows for r in mine), sum(r.bytes for r in mine)


def _sums(rows: Sequence[tuple[BlockRange, int, int]]) -> tuple[int, int]:
    return sum(row[1] for row in rows), sum(row[2] for row in rows)
