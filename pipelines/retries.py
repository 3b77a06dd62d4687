"""Trying a step again after a transient error: a lost connection, a lock held by somebody else.

Anything else would fail the same way again, and must reach a person the first time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from transforms.errors import BusyError

TRANSIENT = (BusyError, ConnectionError, TimeoutError)
"""Errors that may go away by themselves."""

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
