"""Real processes side by side: two Dagster runs, and an analyst who has the catalog open."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from pipelines.batches import Batch
from pipelines.instance import add_partitions, open_instance
from pipelines.run_requests import batch_tags
from pipelines.settings import Settings
from pipelines.site.segment_status import site_status
from pipelines.site.site import Site
from tests.pipelines.conftest import MakeSegments
from tests.pipelines.kit import blocks, damages, load

DAGSTER = Path(sys.executable).parent / "dagster"
ANALYST = """
import duckdb, sys
con = duckdb.connect(sys.argv[1], read_only=True)
for line in sys.stdin:
    print(con.execute("select count(*) from blocks").fetchone()[0], flush=True)
"""


def run_of(batch: Batch, settings: Settings) -> subprocess.Popen[str]:
    """A process that does what Dagster's run worker does for a batch."""
    environment = {
        **os.environ,
        "STRATA_SOURCE": settings.source,
        "STRATA_WAREHOUSE": str(settings.warehouse),
        "STRATA_ARCHIVE": settings.archive,
    }
    job = ["job", "execute", "-m", "pipelines.definitions", "-j", "load_and_publish"]
    return subprocess.Popen(
        [DAGSTER, *job, "--tags", json.dumps(batch_tags(batch))],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@contextmanager
def analyst(catalog: Path) -> Iterator[Callable[[], str]]:
    """A process that opens the catalog once and counts blocks whenever it is asked."""
    with subprocess.Popen(
        [sys.executable, "-c", ANALYST, catalog],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def count() -> str:
            asked.write("again\n")
            asked.flush()
            return answers.readline().strip()

        yield count
        asked.close()


def test_two_runs_at_once_beside_an_open_catalog_meet_no_lock(
    settings: Settings, make_segments: MakeSegments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "dagster_home"
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    site = Site(settings)
    make_segments(1)
    load(site)
    make_segments(6, at=1)
    with open_instance(home) as instance:
        add_partitions(instance, site_status(site).known)

    with analyst(site.warehouse.current) as count:
        before = count()
        runs = [run_of(Batch(blocks(*numbers)), settings) for numbers in ((1, 2, 3), (4, 5, 6))]
        logs = [run.communicate(timeout=120)[0] for run in runs]
        after = count()

    assert [run.returncode for run in runs] == [0, 0], "\n".join(logs)
    assert not any("locked" in log or "Falling back" in log for log in logs)
    # The analyst keeps the snapshot that was opened; whoever opens now sees everything.
    assert (before, after) == ("10", "10")
    with duckdb.connect(site.warehouse.current.resolve(), read_only=True) as con:
        assert con.execute("select count(*) from blocks").fetchall() == [(70,)]
    assert site_status(site).published == blocks(1, 2, 3, 4, 5, 6)
    assert damages(site) == []
