"""What happens by the clock; everything else follows from what the source has (the sensor)."""

import dagster as dg

from pipelines import jobs
from pipelines.settings import Settings


def schedules(settings: Settings) -> list[dg.ScheduleDefinition]:
    """Windows every hour, where the setting asks for them; small volumes merged every hour.

    The proof of everything, on Sundays, reads every byte. That may cost money or time, so somebody
    must turn it on.
    """
    windows = (
        dg.DefaultScheduleStatus.RUNNING if settings.window else dg.DefaultScheduleStatus.STOPPED
    )
    return [
        dg.ScheduleDefinition(
            name="windows_every_hour",
            job=jobs.publish_windows,
            cron_schedule="17 * * * *",
            default_status=windows,
        ),
        dg.ScheduleDefinition(
            name="compact_every_hour",
            job=jobs.compact,
            cron_schedule="47 * * * *",
            default_status=dg.DefaultScheduleStatus.RUNNING,
        ),
        dg.ScheduleDefinition(
            name="verify_every_week",
            job=jobs.verify,
            cron_schedule="31 3 * * 0",
            default_status=dg.DefaultScheduleStatus.STOPPED,
        ),
    ]
