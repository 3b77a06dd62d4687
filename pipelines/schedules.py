"""What happens by the clock; everything else follows from what the source has (the sensor)."""

from collections.abc import Mapping

import dagster as dg

from pipelines.run_requests import QUIET

_QUICK = QUIET | {"ops": {"prove_everything": {"config": {"quick": True}}}}


def schedules() -> list[dg.ScheduleDefinition]:
    """Small volumes are merged every hour.

    Every day a listing of the archive is held against its index, what is missing is made again, and
    what the lake no longer needs is removed, as are old runs.
    All documents and a sample of the files are proven every day. The proof of everything, once a
    week, reads every byte. That may cost money or time, so somebody must turn it on; and so for a
    data node's new segments, as only its own user may collect them.
    """
    return [
        _schedule("collect_every_ten_minutes", "collect", "*/10 * * * *", False),
        _schedule("compact_every_hour", "compact", "47 * * * *"),
        _schedule("complete_every_day", "complete", "2 2 * * *"),
        _schedule("verify_quickly_every_day", "verify", "31 2 * * *", config=_QUICK),
        _schedule("verify_every_week", "verify", "31 3 * * 0", False),
    ]


def _schedule(
    name: str,
    job: str,
    cron: str,
    is_on: bool = True,
    config: Mapping[str, object] = QUIET,
) -> dg.ScheduleDefinition:
    """A schedule, that is on, or off, until somebody says otherwise in the interface."""
    status = dg.DefaultScheduleStatus.RUNNING if is_on else dg.DefaultScheduleStatus.STOPPED
    return dg.ScheduleDefinition(
        name=name,
        job_name=job,
        cron_schedule=cron,
        run_config=config,
        default_status=status,
    )
