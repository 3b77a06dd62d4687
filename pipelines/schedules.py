"""What happens by the clock; everything else follows from what the source has (the sensor)."""

from collections.abc import Mapping
from typing import Protocol

import dagster as dg

from pipelines import jobs
from pipelines.quiet import QUIET
from pipelines.settings import Settings

PART_MINUTES = 180
"""How long the proof of everything goes on in one night."""


class _Named(Protocol):
    """A job of any kind."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...


def schedules(settings: Settings) -> list[dg.ScheduleDefinition]:
    """Bundles every hour, where the setting asks for them; small volumes merged every hour.

    Every day a listing of the archive is held against its index, what is missing is made again, and
    what the lake no longer needs is removed.
    Old runs are removed from Dagster every day.
    All documents and a sample of the files are proven every day. The proof of everything reads
    every byte, some hours of it each night, and goes on the next night. That may cost money or
    time, so somebody must turn it on; and so for a data node's new segments, as only its own user
    may collect them.
    """
    return [
        _schedule("bundles_every_hour", jobs.publish_bundles, "17 * * * *", bool(settings.bundle)),
        _schedule("collect_every_ten_minutes", jobs.collect, "*/10 * * * *", False),
        _schedule("compact_every_hour", jobs.compact, "47 * * * *"),
        _schedule("complete_every_day", jobs.complete, "2 2 * * *"),
        _schedule("forget_runs_every_day", jobs.forget_runs, "12 1 * * *"),
        _schedule("verify_quickly_every_day", jobs.verify, "31 2 * * *", True, _check(quick=True)),
        _schedule(
            "verify_a_part_every_night",
            jobs.verify,
            "31 3 * * *",
            False,
            _check(minutes=PART_MINUTES),
        ),
    ]


def _schedule(
    name: str,
    job: _Named,
    cron: str,
    is_on: bool = True,
    config: Mapping[str, object] | None = None,
) -> dg.ScheduleDefinition:
    """A schedule, that is on, or off, until somebody says otherwise in the interface."""
    status = dg.DefaultScheduleStatus.RUNNING if is_on else dg.DefaultScheduleStatus.STOPPED
    return dg.ScheduleDefinition(
        name=name,
        job_name=job.name,
        cron_schedule=cron,
        run_config={**QUIET, **(config or {})},
        default_status=status,
    )


def _check(**config: object) -> dict[str, object]:
    return {"ops": {jobs.prove_everything.name: {"config": config}}}
