"""What Dagster itself costs per segment, in a run over many: planning, events, checks, partitions.

Run it: `python -m tests.benchmarks.dagster_cost`. A batch of small segments is loaded and published
through Dagster once, and then again: now there is nothing left to do, so what the second run takes,
less what the same calls take without Dagster, is Dagster's own. It is measured with an empty
Dagster home and beside the 75,000 partitions of a whole mainnet. A second table says how much room
a segment takes in Dagster's SQLite files: as long as its run is kept, and when it was removed.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg

from pipelines.assembly import definitions
from pipelines.batches import Batch, plan_batches
from pipelines.instance import add_partitions, open_instance
from pipelines.jobs import load_and_publish
from pipelines.old_runs import remove_old_runs
from pipelines.run_requests import batch_tags
from pipelines.site.lake_publishing import publish_to_lake
from pipelines.site.loading import load_segments
from pipelines.site.publishing import publish_segments
from pipelines.site.segment_status import site_status
from pipelines.site.site import Site
from tests.pipelines.kit import make_segment, site_settings
from transforms.block_range import BlockRange
from transforms.tables.registry import HISTORY_TABLES

SEGMENTS = 100
FEW = 20
MAINNET = 75_000
AIM = 0.1
"""Processor seconds per segment that Dagster may cost; one of mainnet takes about one to load."""


@dataclass(frozen=True)
class Row:
    """Processor seconds per segment of a batch: the second run, without Dagster, the difference."""

    what: str
    whole: float
    domain: float

    @property
    def own(self) -> float:
        """What Dagster adds."""
        return self.whole - self.domain

    def line(self) -> str:
        """The measurement as a row of the table in docs/performance.md."""
        return f"| {self.what} | {self.whole:.3f} | {self.domain:.3f} | {self.own:.3f} | {AIM} |"


@dataclass(frozen=True)
class Room:
    """Bytes per segment, where a run takes so many."""

    each: int
    with_run: float
    without_run: float

    def line(self) -> str:
        """The measurement as a row of the table in docs/performance.md."""
        return f"| {self.each} | {self.with_run / 1000:.0f} | {self.without_run / 1000:.0f} |"


def run(segments: int = SEGMENTS) -> list[Row]:
    """Measure, with an empty home and with a mainnet's partitions in it."""
    with tempfile.TemporaryDirectory(prefix="strata-dagster-") as folder:
        settings = replace(site_settings(Path(folder)), lake=True)
        for number in range(segments):
            make_segment(settings, number)
        site = Site(replace(settings, batch=segments))
        return [
            _measure(site, Path(folder, "home"), 0),
            _measure(site, Path(folder, "mainnet"), MAINNET),
        ]


def _measure(site: Site, home: Path, others: int) -> Row:
    job = definitions(site.settings).resolve_job_def(load_and_publish.name)
    before = os.environ.get("DAGSTER_HOME")
    try:
        with open_instance(home) as instance:
            far = (BlockRange(10**8 + n, 10**8 + n) for n in range(others))
            add_partitions(instance, far)
            known = site_status(site).known
            (batch,) = plan_batches(known, len(known), add_partitions(instance, known))
            _execute(job, instance, site, batch)
            whole = _seconds(lambda: _execute(job, instance, site, batch))
            domain = _seconds(lambda: _without_dagster(site, batch))
    finally:
        if before is not None:
            os.environ["DAGSTER_HOME"] = before
    count = len(batch.segments)
    return Row(f"beside {others:,} other partitions", whole / count, domain / count)


def room(each: int, runs: int) -> Room:
    """Load twice as many runs, and measure what the second half of them adds."""
    with tempfile.TemporaryDirectory(prefix="strata-dagster-") as folder:
        settings = replace(site_settings(Path(folder)), lake=True)
        for number in range(2 * each * runs):
            make_segment(settings, number)
        site = Site(replace(settings, batch=each))
        job = definitions(site.settings).resolve_job_def(load_and_publish.name)
        home = Path(folder, "home")
        used: list[tuple[int, int]] = []
        with open_instance(home) as instance:
            known = site_status(site).known
            batches = list(plan_batches(known, each, add_partitions(instance, known)))
            for half in (batches[:runs], batches[runs:]):
                for batch in half:
                    _execute(job, instance, site, batch)
                before = _used(home)
                later = datetime.now(UTC) + timedelta(days=2)
                remove_old_runs(instance, later, newest_kept=0)
                used.append((before, _used(home)))
    (_, first), (with_runs, without_runs) = used
    count = each * runs
    return Room(each, (with_runs - first) / count, (without_runs - first) / count)


def _used(home: Path) -> int:
    """The bytes of all SQLite files, without what is free in them."""
    used = 0
    for file in home.rglob("*.db"):
        with closing(sqlite3.connect(file)) as con:
            pages, free, size = (
                con.execute(f"pragma {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
            used += (pages - free) * size
    return used


def _execute(job: dg.JobDefinition, instance: dg.DagsterInstance, site: Site, batch: Batch) -> None:
    result = job.execute_in_process(
        instance=instance,
        tags=batch_tags(batch),
        resources={"site": Site(site.settings)},
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )
    assert result.success


def _without_dagster(site: Site, batch: Batch) -> None:
    """What the assets of the job call, in their order."""
    fresh = Site(site.settings)
    load_segments(fresh, batch.segments)
    for table in HISTORY_TABLES:
        publish_segments(fresh, batch.segments, (table,))
    publish_to_lake(fresh, batch.segments)


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    """Print the measurements as a table."""
    print("| Dagster | s per segment | without Dagster | Dagster's own | aim |")
    print("|---|---|---|---|---|")
    for row in run():
        print(row.line())
    print("\n| segments a run | KB a segment with its run | without |\n|---|---|---|")
    for each, runs in ((SEGMENTS, 1), (1, FEW)):
        print(room(each, runs).line())


if __name__ == "__main__":
    main()
