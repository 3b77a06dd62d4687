"""Trying a step again after a transient error: a lost connection, a lock held by somebody else.

Anything else would fail the same way again, and must reach a person the first time; what the
machine says (a full disk) as a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
