"""`strata run`: what Dagster does by itself, now and here: load and publish everything new."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from exporters.archive.figures import size_text
from exporters.locations import dagster_home
from pipelines.commands.display import Screen
from pipelines.commands.failures import DAMAGED, FINDINGS, MACHINE, OK
from pipelines.commands.options import screen_option, site_options
from pipelines.commands.publication_report import show_completion, show_refused
from pipelines.commands.run_report import show_run
from pipelines.lasting_objects import lasting_objects
from pipelines.sample_history import copy_sample
from pipelines.site.completing import Completion, complete_archive
from pipelines.site.loading import load_spam_captures
from pipelines.site.publication_state import PublishedTable, published_tables, sweep
from pipelines.site.segment_status import SiteStatus, site_status
from pipelines.site.site import Site
from transforms.errors import TRANSIENT

if TYPE_CHECKING:
    from pipelines.running import FinishedRun
    from transforms.spam.capture_tables import RefusedLine

_Result = TypeVar("_Result")
_WAITS = (1, 2, 4, 8)  # seconds


@click.command("run")
@site_options("source", "warehouse", "archive")
@screen_option
def command(site: Site, screen: Screen) -> int:
    """Load and publish every new segment as Dagster runs, which its web interface shows.

    Without a source, a sample history is made and used. Run again, it changes nothing. The exit
    code is 1 as long as the source has a segment or a line of spam captures that cannot be used, or
    is empty, a segment is published with other text than loaded, or a run failed; 7 where the disk
    or the network is why.
    """
    _copy_sample(screen, site)
    with site.warehouse.one_look():
        before = _first_status(site)
        completion = Completion() if before.to_do else _look(site, screen)
    status = before if completion.is_nothing else site_status(site)
    runs = list(_run(site, screen, status)) if status.to_do else []
    has_machine_failed = any(run.of_machine for run in runs)

    def finish() -> tuple[Sequence[RefusedLine], SiteStatus, list[PublishedTable], dict[str, str]]:
        with site.warehouse.one_look():
            lines = load_spam_captures(site)
            after = before if completion.is_nothing and not runs else site_status(site)
            tables = published_tables(site, frozenset(after.published).difference(before.published))
            return lines, after, tables, {} if has_machine_failed else _swept(site, after)

    lines, after, tables, not_swept = finish() if has_machine_failed else _repeated(finish)
    _record_look(site, after)
    show_completion(screen, completion)
    _show_refusals(screen, completion, not_swept, lines)
    show_run(screen, site, after, tables, idle=not runs)
    screen.document(
        {
            "chain_id": after.chain_id,
            "published": tables,
            "runs": runs,
            "complete_until": after.complete_until,
            "refused": [{"file": file, "reason": why} for file, why in after.refused.items()],
            "refused_captures": lines,
            "lake": {"refused": not_swept},
        }
    )
    if has_machine_failed:
        return MACHINE
    is_bad = after.refused or [*after.problems] or lines or completion.failed or not_swept
    findings = FINDINGS if is_bad or any(run.failure for run in runs) else OK
    return DAMAGED if after.catalog.lost_rows else findings


def _repeated(work: Callable[[], _Result]) -> _Result:
    """Do work, and again, later each time, while an error may go away, as Dagster's steps do."""
    for seconds in _WAITS:
        try:
            return work()
        except TRANSIENT:
            time.sleep(seconds)
    return work()


def _swept(site: Site, status: SiteStatus) -> dict[str, str]:
    """Remove what the lake no longer needs, if there is one; why tables stay as they are."""
    return sweep(site) if site.settings.lake and status.published else {}


def _show_refusals(
    screen: Screen,
    completion: Completion,
    not_swept: Mapping[str, str],
    lines: Sequence[RefusedLine],
) -> None:
    failed = ((zip_.name, zip_.reason) for zip_ in completion.failed)
    screen.table("not in the archive", ("file", "reason"), failed)
    show_refused(screen, not_swept)
    shown = ((line.file, line.line, line.reason) for line in lines)
    screen.table("no spam captures", ("file", "line", "reason"), shown)


def _first_status(site: Site) -> SiteStatus:
    """How the site is before anything is done; what cannot be used is on record then."""
    try:
        site.stage.sweep()
        status = site_status(site)
    except Exception:
        _record_look(site, None)
        raise
    site.warehouse.record_refusals(status.survey)
    return status


def _copy_sample(screen: Screen, site: Site) -> None:
    """Copy the sample history to where it is looked for, where nobody named another source."""
    source = site.settings.source
    if not site.settings.embedded or Path(source).exists():
        return
    paths = copy_sample(Path(source))
    size = size_text(sum(path.stat().st_size for path in paths))
    screen.message(f"Copied a sample history to {source}: {len(paths)} segments, {size}")


def _record_look(site: Site, status: SiteStatus | None) -> None:
    if site.settings.metrics is not None:
        from pipelines.running import record_look  # Dagster takes a second to import

        record_look(site, status, dagster_home())


def _look(site: Site, screen: Screen) -> Completion:
    """Whether what was published before is there: "nothing new" must not be said of less."""
    catalog = site.warehouse.catalog()
    if not catalog.snapshot.volumes:
        return Completion()
    with screen.counts("looking at") as count:
        archive = site.archive(catalog.snapshot.chain_id)
        return complete_archive(site, archive, count, contents=False)


def _run(site: Site, screen: Screen, status: SiteStatus) -> Iterator[FinishedRun]:
    # Dagster takes a second to import, which a run with nothing to do need not pay.
    with lasting_objects():
        from pipelines.running import run_everything

    runs: list[FinishedRun] = []

    def report(run: FinishedRun) -> None:
        runs.append(run)
        screen.message(f"blocks {run.batch}: {run.failure or 'done'} (run {run.run_id})")

    pending = status.survey.pending
    total = sum(file.info.size for file in pending)
    if pending:
        screen.message(f"Loading {len(pending):,} segments, {size_text(total)}, through Dagster")
    with screen.progress("loading", total) as advance:
        site.progress = advance
        run_everything(site, status, dagster_home(), report)
    yield from runs
