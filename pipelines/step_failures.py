"""What ends a step: transient errors, after which it is tried again, and failures as sentences.

A lost connection, or a lock held by somebody else, may pass. Anything else would fail the same way
again, and must reach a person the first time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum

import dagster as dg

from transforms.errors import TRANSIENT, BusyError, ConfigError, StrataError
from transforms.machine_errors import sentence

MOST_RETRIES = 4
FIRST_WAIT_SECONDS = 5.0
_SCOPE = "scope"
_OF_DATABASE = ("OperationalError", "DatabaseError")  # Dagster's own


class Scope(Enum):
    """What a failure is about: the batch's segments, their files, the machine, or anything else."""

    BATCH = "batch"
    FILES = "files"
    MACHINE = "machine"
    ALL = "all"


@contextmanager
def retried_if_transient(retry_number: int) -> Iterator[None]:
    """Ask Dagster to run the step again, later each time, where an error inside may pass.

    Other errors of ours and of the machine fail it with a sentence.
    """
    try:
        yield
    except (StrataError, OSError) as error:
        if isinstance(error, TRANSIENT) and retry_number < MOST_RETRIES:
            wait = FIRST_WAIT_SECONDS * 2**retry_number
            raise dg.RetryRequested(max_retries=MOST_RETRIES, seconds_to_wait=wait) from error
        text = sentence(error) if isinstance(error, OSError) else " ".join(str(error).split())
        scope = {_SCOPE: _scope(error).value}
        raise dg.Failure(text, scope, allow_retries=False) from error


def _scope(error: Exception) -> Scope:
    if not isinstance(error, StrataError):
        return Scope.MACHINE
    return Scope.ALL if isinstance(error, (BusyError, ConfigError)) else Scope.BATCH


def final_failure(what: str, reasons: Mapping[str, str], scope: Scope = Scope.BATCH) -> dg.Failure:
    """What no other try mends, as a sentence, with the reason of each thing it is about."""
    listed = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    return dg.Failure(f"{what}. {listed}", {_SCOPE: scope.value}, allow_retries=False)


def step_failures(events: Iterable[dg.DagsterEvent]) -> Iterator[tuple[str, Scope]]:
    """The failures of steps among a run's events."""
    for event in events:
        if not event.is_step_failure:
            continue
        data = event.step_failure_data
        failure = data.user_failure_data
        if failure is not None:
            scope = failure.metadata.get(_SCOPE)
            yield failure.description or "", Scope(scope.value) if scope else Scope.BATCH
        elif data.error is not None:
            error = data.error.cause or data.error  # Dagster's own says in which step it was
            is_of_database = error.cls_name in _OF_DATABASE
            message = " ".join(error.message.partition(" [SQL: ")[0].split())
            yield message, Scope.MACHINE if is_of_database else Scope.BATCH
