"""What Dagster itself costs per segment, in a run over many: planning, events, checks, partitions.

Run it: `python -m tests.benchmarks.dagster_cost`. A batch of small segments is loaded and published
through Dagster once, and then again: now there is nothing left to do, so what the second run takes,
less what the same calls take without Dagster, is Dagster's own. It is measured with an empty
Dagster home and beside the 75,000 partitions of a whole mainnet.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import dagster as dg

from pipelines.batches import Batch, plan_batches
from pipelines.definitions import definitions
from pipelines.instance import add_partitions, open_instance
from pipelines.jobs import load_and_publish
from pipelines.run_requests import batch_tags
from pipelines.site.audits import CHECKS, gather
from pipelines.site.loading import load_segments
from pipelines.site.publishing import publish_segments
from pipelines.site.site import Site
from pipelines.site.status import site_status
from tests.pipelines.kit import make_segment, site_settings
from transforms.blocks import BlockRange
from transforms.tables.registry import HISTORY_TABLES

SEGMENTS = 100
MAINNET = 75_000
AIM = 0.1
"""Seconds per segment: what Dagster may cost (a segment of mainnet takes about one to load)."""


@dataclass(frozen=True)
class Row:
    """Seconds per segment of a batch: the whole second run, without Dagster, and the difference."""

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


def run(segments: int = SEGMENTS) -> list[Row]:
    """Measure, with an empty home and with a mainnet's partitions in it."""
    with tempfile.TemporaryDirectory(prefix="strata-dagster-") as folder:
        settings = site_settings(Path(folder))
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
            (batch,) = plan_batches(known, add_partitions(instance, known), len(known))
            _execute(job, instance, site, batch)
            whole = _seconds(lambda: _execute(job, instance, site, batch))
            domain = _seconds(lambda: _without_dagster(site, batch))
    finally:
        if before is not None:
            os.environ["DAGSTER_HOME"] = before
    count = len(batch.segments)
    return Row(f"beside {others:,} other partitions", whole / count, domain / count)


def _execute(job: dg.JobDefinition, instance: dg.DagsterInstance, site: Site, batch: Batch) -> None:
    result = job.execute_in_process(
        instance=instance,
        tags=batch_tags(batch),
        resources={"site": Site(site.settings)},
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )
    assert result.success


def _without_dagster(site: Site, batch: Batch) -> None:
    """What the assets and checks of the job call, in their order."""
    fresh = Site(site.settings)
    load_segments(fresh, batch.segments)
    with gather(fresh, frozenset(batch.segments)) as evidence:
        for table in HISTORY_TABLES:
            for check in CHECKS:
                assert not list(check.audit(evidence, table))
    for table in HISTORY_TABLES:
        publish_segments(fresh, batch.segments, (table,))


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    """Print the measurements as a table."""
    print("| Dagster | s per segment | without Dagster | Dagster's own | aim |")
    print("|---|---|---|---|---|")
    for row in run():
        print(row.line())


if __name__ == "__main__":
    main()
