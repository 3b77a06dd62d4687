"""The Dagster instance that the command line runs in: the same one that `dagster dev` shows."""

from __future__ import annotations

import errno
import re
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.resources import as_file, files
from pathlib import Path

import dagster as dg
from sqlalchemy.exc import DBAPIError

from exporters.locations import set_for_library
from pipelines.partitions import SEGMENTS, addable, missing_partitions
from transforms.block_range import BlockRange
from transforms.errors import BusyError, ConfigError
from transforms.scratch import exclusive

COMMAND_LINE_TAG = {"strata/started_by": "command line"}
"""On runs that live in a `strata run` process and end with it, whatever the log says."""

_NUMBERS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
}

_CONFIG = "dagster.yaml"
_UNFINISHED = [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTED]


@contextmanager
def open_instance(home: Path) -> Iterator[dg.DagsterInstance]:
    """Open the instance at `home`, which is made, with our configuration, where it is missing.

    Raises `ConfigError` for a folder in which Dagster opens no files.
    """
    # Dagster names its databases by addresses, in which these mean something else.
    if odd := re.search(r"\?|%[0-9A-Fa-f]{2}", str(home)):
        raise ConfigError(
            f"DAGSTER_HOME is {home}: Dagster opens no files in a folder with a {odd[0]} in its "
            "path: name another folder"
        )
    home.mkdir(parents=True, exist_ok=True)
    if not (home / _CONFIG).exists():
        with as_file(files("pipelines") / _CONFIG) as ours:
            shutil.copyfile(ours, home / _CONFIG)
    # Our event log finds its folder by this, as it does under `dagster dev`.
    set_for_library("DAGSTER_HOME", str(home))
    with _plain_errors(home), dg.DagsterInstance.get() as instance:
        yield instance


@contextmanager
def _plain_errors(home: Path) -> Iterator[None]:
    """Raise what the machine says to Dagster's database as the error of the machine that it is.

    A lock of another process is a `BusyError`.
    """
    try:
        yield
    except DBAPIError as error:
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise BusyError(
                f"another process holds a lock on Dagster's database in {home} ({error.orig}): "
                "look for a stuck process, then run it again"
            ) from error
        number = _NUMBERS.get(code, errno.EIO)
        what = f"Dagster's database says: {error.orig}"
        raise OSError(number, what, str(home)) from error


@contextmanager
def only_command_line(
    instance: dg.DagsterInstance, home: Path, wait_seconds: float = 120.0
) -> Iterator[None]:
    """Be the only `strata run` in this Dagster home; ends what killed ones left in the log.

    Raises `BusyError` where another one is still at work after `wait_seconds`.
    """
    with exclusive(home / "strata-run.lock", wait_seconds=wait_seconds):
        _end_runs(instance, "its process was killed")
        try:
            yield
        except KeyboardInterrupt:
            # Dagster ends a run that it has begun, not one that it has only written down.
            _end_runs(instance, "its process was interrupted")
            raise


def _end_runs(instance: dg.DagsterInstance, why: str) -> None:
    """End the runs of command lines that are not finished, of which none is at work."""
    runs_filter = dg.RunsFilter(statuses=_UNFINISHED, tags=COMMAND_LINE_TAG)
    for run in instance.get_runs(runs_filter):
        instance.report_run_canceled(run, why)


def runs_here(instance: dg.DagsterInstance) -> bool:
    """Whether runs are processes of this machine, and no broker or cluster hands them to others.

    The launcher is not opened: that of Kubernetes wants to be inside of a cluster.
    """
    launcher = instance.get_ref().run_launcher_data if instance.is_persistent else None
    return launcher is None or launcher.class_name == dg.DefaultRunLauncher.__name__


def end_killed_runs(instance: dg.DagsterInstance, home: Path) -> None:
    """End what killed command lines left in the log, unless one is at work just now."""
    with suppress(BusyError), only_command_line(instance, home, wait_seconds=0):
        pass


def add_partitions(instance: dg.DagsterInstance, segments: Iterable[BlockRange]) -> list[str]:
    """Add the segments that have no partition yet; returns all keys in the order of adding."""
    present = instance.get_dynamic_partitions(str(SEGMENTS.name))
    fresh = missing_partitions(present, segments)
    for keys in addable(fresh):
        instance.add_dynamic_partitions(str(SEGMENTS.name), keys)
    return [*present, *fresh]
