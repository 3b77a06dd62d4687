"""A line in the daemon's log for each run that has ended, wherever it was executed.

All of a run's events are in Dagster's own log, which its web interface shows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import dagster as dg

from pipelines.machine_name import MACHINE_TAG
from pipelines.old_runs import ENDED
from pipelines.run_requests import BATCH_TAG
from pipelines.step_failures import step_failures

_MOST = 100  # lines at a time
_WORDS = {"SUCCESS": "done", "FAILURE": "failed", "CANCELED": "canceled"}


def log_ended_runs(instance: dg.DagsterInstance, since: float) -> float:
    """Write a line for each run that ended after `since`; returns what is `since` the next time.

    Times are in Unix seconds.
    """
    ended = dg.RunsFilter(statuses=ENDED, updated_after=datetime.fromtimestamp(since, UTC))
    for record in instance.get_run_records(ended, limit=_MOST, ascending=True):
        # A service's log is what it writes here; Python's own logging is Dagster's in this process.
        sys.stderr.write(f"{_line(instance, record)}\n")
        since = max(since, record.update_timestamp.timestamp())
    sys.stderr.flush()
    return since


def _line(instance: dg.DagsterInstance, record: dg.RunRecord) -> str:
    run = record.dagster_run
    end = record.end_time or record.update_timestamp.timestamp()
    when = datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%d %H:%M:%S")
    blocks = f" of blocks {run.tags[BATCH_TAG]}" if BATCH_TAG in run.tags else ""
    seconds = f" in {end - record.start_time:.1f} s" if record.start_time else ""
    reasons = "; ".join(_reasons(instance, run.run_id)) if run.is_failure else ""
    where = f" on {run.tags[MACHINE_TAG]}" if MACHINE_TAG in run.tags else ""
    how = f"{_WORDS[run.status.value]}{seconds}{where}{reasons and f': {reasons}'}"
    return f"{when} {run.job_name}{blocks} {how} (run {run.run_id})"


def _reasons(instance: dg.DagsterInstance, run_id: str) -> Iterator[str]:
    """Why steps failed; where none did, as nobody began the run, what Dagster says of the run."""
    step, run = dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.RUN_FAILURE
    entries = instance.all_logs(run_id, of_type={step, run})
    events = [entry.dagster_event for entry in entries if entry.dagster_event is not None]
    reasons = [reason for reason, _ in step_failures(events)]
    for reason in reasons or [event.message or "" for event in events]:
        yield " ".join(reason.split())
