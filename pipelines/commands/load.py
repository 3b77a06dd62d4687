"""`strata load`: load what the source has and the warehouse has not, without Dagster."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from exporters.archive.figures import size_text
from pipelines.batches import plan_batches
from pipelines.commands.display import Screen
from pipelines.commands.failures import DAMAGED, FINDINGS, MACHINE, OK
from pipelines.commands.found import show_lost
from pipelines.commands.options import open_site, screen_option, source_option, warehouse_option
from pipelines.site.loading import LoadOutcome, load_segments, load_spam_captures
from pipelines.site.site import Site
from transforms.block_range import BlockRange
from transforms.coverage import union
from transforms.verifying.findings import foreign_sentence
from transforms.warehouse.survey import Survey

if TYPE_CHECKING:
    from transforms.spam.capture_tables import RefusedLine

_Loaded = tuple[BlockRange, int, int]
"""A segment that is in the warehouse now, with its rows and CSV bytes."""


@click.command("load")
@source_option
@warehouse_option
@click.option(
    "--archive",
    metavar="PLACE",
    help="Load what this archive has: a folder, s3://<bucket>/<prefix>, or https://.",
)
@click.option(
    "--chain", metavar="ID", help="The archive's chain [the loaded one, or the only one]."
)
@screen_option
def command(
    source: str | None,
    warehouse: str | None,
    archive: str | None,
    chain: str | None,
    screen: Screen,
) -> int:
    """Load every new segment into the warehouse, typed and proven, and stop there.

    A segment that cannot be used goes to quarantine with its reason; the rest goes on. So do lines
    of spam captures (spam/<chain id>-<height>.ndjson or .gz of the source) that are none. The exit
    code is 1 as long as the source has such a segment or line, or a segment that changed after it
    was loaded. It is 7 if the source lists a file and does not give it; the next load tries again.

    With --archive, what the warehouse lacks comes from an archive with a lake instead: its data
    files as they are, each CSV held against its published hash. What is damaged there is named, the
    rest goes on, and the exit code is 5. Run it again to go on, or to get what is new.
    """
    if archive is not None:
        if source is not None:
            raise click.UsageError("load from --source or from --archive")
        return _load_archive(screen, open_site(warehouse=warehouse), archive, chain)
    if chain is not None:
        raise click.UsageError("--chain says which chain of --archive")
    return _load_source(screen, open_site(source, warehouse))


def _load_archive(screen: Screen, site: Site, address: str, chain: str | None) -> int:
    # Who loads from segments needs none of this.
    from exporters.fetching.fetch_folder import choose_chain, opened_archive
    from exporters.loading.archive_load import load_archive

    started = time.monotonic()
    snapshot = site.warehouse.snapshot()
    with opened_archive(address, site.settings.store_options) as store:
        archive = choose_chain(store, chain or snapshot.chain_id or None)
        report = load_archive(site.warehouse, archive, screen.progress)
    refused = {f"blocks {item.blocks}": item.reason for item in report.not_taken}
    if report.states:
        screen.show(f"The current state is that of block {report.states[-1].last}.")
    segments = [(segment.blocks, segment.rows, segment.bytes) for segment in report.loaded]
    _show(screen, refused, segments, time.monotonic() - started)
    return _warn(screen, site, segments) or (DAMAGED if refused else OK)


def _load_source(screen: Screen, site: Site) -> int:
    started = time.monotonic()
    survey = site.warehouse.survey(site.source)
    site.warehouse.record_refusals(survey)
    total = sum(file.info.size for file in survey.pending)
    with screen.progress("loading", total) as advance:
        batches = plan_batches((file.blocks for file in survey.pending), site.settings.batch)
        site.progress = advance
        outcomes = [load_segments(site, batch.segments) for batch in batches]
    if not survey.pending:  # a load that was killed at its very end has left the rest to us
        site.sweep()
        site.warehouse.show()
    lines = load_spam_captures(site)
    if survey.uncompared:
        survey = site.warehouse.survey(site.source, compared_bytes=math.inf)
    refused = _refused(site, survey)
    unreadable = {key: why for outcome in outcomes for key, why in outcome.unreadable.items()}
    loaded = [segment for outcome in outcomes for segment in _loaded(outcome)]
    if survey.source_problem:
        screen.message(survey.source_problem)
    _show(screen, refused, loaded, time.monotonic() - started, lines, unreadable)
    lost = _warn(screen, site, loaded)
    if unreadable:
        return MACHINE
    return lost or (FINDINGS if refused or lines or survey.source_problem else OK)


def _warn(screen: Screen, site: Site, loaded: Sequence[_Loaded]) -> int:
    """Warn of new rows that belong to no block, and of lost rows; the exit code for these."""
    catalog = site.warehouse.catalog()
    runs = union(blocks for blocks, *_ in loaded)
    if foreign := [rows for run in runs for rows in catalog.foreign_rows(run)]:
        screen.message(foreign_sentence(foreign))
    return show_lost(screen, catalog)


def _refused(site: Site, survey: Survey) -> dict[str, str]:
    """The files that cannot be used, with their reasons, by key: those of before and of now."""
    reasons = survey.reasons | {
        file.key: file.reason for file in site.warehouse.snapshot().quarantine
    }
    return dict(sorted(reasons.items()))


def _show(
    screen: Screen,
    refused: dict[str, str],
    loaded: Sequence[_Loaded],
    seconds: float,
    lines: Sequence[RefusedLine] = (),
    unreadable: Mapping[str, str] = MappingProxyType({}),
) -> None:
    screen.table("cannot be used", ("file", "reason"), refused.items())
    screen.table("cannot be read now", ("file", "reason"), unreadable.items())
    shown = ((line.file, line.line, line.reason) for line in lines)
    screen.table("no spam captures", ("file", "line", "reason"), shown)
    rows = sum(segment[1] for segment in loaded)
    size = sum(segment[2] for segment in loaded)
    blocks = ", ".join(map(str, union(segment[0] for segment in loaded)))
    screen.show(
        f"{len(loaded)} segments loaded: {rows:,} rows, {size_text(size)} of CSV in {seconds:.1f} s"
        f", blocks {blocks}"
        if loaded
        else "Nothing new to load."
    )
    screen.document(
        {
            "loaded": [
                {"segment": blocks, "rows": rows, "bytes": size} for blocks, rows, size in loaded
            ],
            "quarantined": [{"file": key, "reason": reason} for key, reason in refused.items()],
            "unreadable": [{"file": key, "reason": reason} for key, reason in unreadable.items()],
            "refused_captures": lines,
            "seconds": round(seconds, 3),
        }
    )


def _loaded(outcome: LoadOutcome) -> Iterator[_Loaded]:
    """The segments that this load added."""
    mine = (receipt for receipt in outcome.receipts if receipt.blocks in outcome.loaded)
    for blocks, receipts in groupby(mine, key=lambda receipt: receipt.blocks):
        sizes = [(receipt.rows, receipt.bytes) for receipt in receipts]
        yield blocks, sum(rows for rows, _ in sizes), sum(size for _, size in sizes)
