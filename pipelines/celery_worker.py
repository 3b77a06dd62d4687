"""Dagster's Celery worker, which puts a run back that its machine cannot work on.

`dagster-celery worker start -A pipelines.celery_worker` is started with it. Without this, a machine
with a full disk fails each of its runs within seconds, and so takes most of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NoReturn

import dagster as dg
from celery import Task
from celery.exceptions import Ignore
from celery.utils.log import get_task_logger
from dagster._grpc.types import ExecuteRunArgs
from dagster._serdes import unpack_value
from dagster_celery.make_app import make_app
from dagster_celery.tasks import create_execute_job_task, create_resume_job_task, create_task

from pipelines.machine_name import machine_name, machine_tags

PAUSE_SECONDS = 30.0
"""For so long the slot of a run that was put back stays empty, so that others take the run."""

_log = get_task_logger(__name__)


class RunTask(Task):  # type: ignore[misc]
    """A run, which begins only on a machine that can work."""

    max_retries = None  # Dagster ends a run that does not begin within `start_timeout_seconds`

    def __call__(self, execute_job_args_packed: Mapping[str, Any]) -> object:
        """Look at the machine, then execute the run."""
        problem = _problem()
        if problem:
            run = unpack_value(execute_job_args_packed, as_type=ExecuteRunArgs)
            self._put_back(run.run_id, problem)
        return super().__call__(execute_job_args_packed)

    def _put_back(self, run_id: str, problem: str) -> NoReturn:
        """Queue this very task again, and take no other for a while."""
        _log.warning("%s takes no run: %s", machine_name(), problem)
        with dg.DagsterInstance.get() as instance:
            run = instance.get_run_by_id(run_id)
            if run is None or run.is_finished:
                raise Ignore
            told = f"Put back, as {machine_name()} cannot work: {problem}"
            instance.report_engine_event(told, run)
            instance.add_run_tags(run_id, machine_tags())  # for where nobody begins it
        # Not `Reject`, which wants a task to be acknowledged late: then the broker would hand a run
        # that takes long to a second worker.
        self.retry(countdown=0, throw=False)
        time.sleep(PAUSE_SECONDS)
        raise Ignore  # another worker may have said by now what became of the task


def _problem() -> str:
    # Not before a process is forked for the run: libraries that have threads do not outlive that.
    from exporters.locations import read_locations
    from pipelines.settings import Settings
    from pipelines.site.machine import machine_problem
    from pipelines.site.site import Site
    from transforms.errors import ConfigError

    try:
        return machine_problem(Site(read_locations(Settings)))
    except ConfigError as error:
        return str(error)


app = make_app()

execute_plan = create_task(app)
execute_job = create_execute_job_task(app, base=RunTask)
resume_job = create_resume_job_task(app)
