"""Why steps of a run failed, as sentences, and what that is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

import dagster as dg

from pipelines.retries import ERROR_NUMBER


class Scope(Enum):
    """What a failure is about: the batch's own segments, the machine, or anything else."""

    BATCH = "batch"
    MACHINE = "machine"
    ALL = "all"


def step_failures(events: Iterable[dg.DagsterEvent]) -> Iterator[tuple[str, Scope]]:
    """The failures of steps among a run's events."""
    for event in events:
        if not event.is_step_failure:
            continue
        data = event.step_failure_data
        failure = data.user_failure_data
        if failure is not None:
            scope = Scope.MACHINE if ERROR_NUMBER in failure.metadata else Scope.BATCH
            yield failure.description or failure.label or "", scope
            continue
        error = data.error
        while error is not None and error.cause is not None and _is_dagsters(error.cls_name):
            error = error.cause
        if error is not None:
            kind = error.cls_name or "error"
            message = " ".join(error.message.split()).partition(f"{kind}: ")[2]
            message = message.partition(" [SQL: ")[0]  # of Dagster's own database
            scope = Scope.BATCH if kind in _OF_ONE_BATCH else Scope.ALL
            yield message or kind, Scope.MACHINE if kind in _OF_MACHINE else scope


def _is_dagsters(kind: str | None) -> bool:
    """Whether an error only says that another one, its cause, ended a step."""
    return (kind or "").startswith(("Dagster", "RetryRequested"))


_OF_MACHINE = (
    *("OSError", "MemoryLimitError", "PermissionError", "ConnectionError", "TimeoutError"),
    *("OperationalError", "DatabaseError"),  # of Dagster's own database
)
_OF_ONE_BATCH = ("DagsterAssetCheckFailedError", "IntegrityError", "ConflictError", "RangeError")
