"""What ends a step: transient errors, after which it is tried again, and failures as sentences.

A lost connection, or a lock held by somebody else, may pass. Anything else would fail the same way
again, and must reach a person the first time; what the machine says (a full disk) as a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum

import dagster as dg

from pipelines.machine_name import machine_name
from transforms.errors import BusyError
from transforms.machine_errors import sentence

TRANSIENT = (BusyError, ConnectionError, TimeoutError)
"""Errors that may go away by themselves."""

ERROR_NUMBER = "error number"
"""Of the metadata of a failure: the number of an error of the machine, like a full disk."""

MOST_RETRIES = 4
FIRST_WAIT_SECONDS = 5.0


@contextmanager
def retried_if_transient(retry_number: int) -> Iterator[None]:
    """Ask Dagster to run the step again, later each time, where an error inside may pass."""
    try:
        yield
    except TRANSIENT as error:
        wait = FIRST_WAIT_SECONDS * 2**retry_number
        raise dg.RetryRequested(max_retries=MOST_RETRIES, seconds_to_wait=wait) from error
    except OSError as error:
        raise dg.Failure(
            sentence(error),
            {ERROR_NUMBER: error.errno or 0, "machine": machine_name()},
            allow_retries=False,
        ) from error


def final_failure(what: str, reasons: Mapping[str, str]) -> dg.Failure:
    """What no other try mends, as a sentence, with the reason of each thing it is about."""
    listed = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    return dg.Failure(f"{what}. {listed}", metadata=reasons, allow_retries=False)


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
