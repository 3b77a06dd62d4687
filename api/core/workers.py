"""Blocking work for an event loop: a few threads, a short queue, a time limit, a way to stop.

A job may be left behind by whoever waited for it. So what it opens it closes, on its thread, before
it ends; what it returns is plain data, which nobody has to close.

DuckDB and object stores block. Their calls run here, never on the loop; what does not fit into the
queue is refused at once, so that a flood costs its clients a retry and not a timeout.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from api.core.api_errors import CancelledError, DeadlineError, UnavailableError
from api.core.logs import log

_Result = TypeVar("_Result")
Departure = Callable[[], Coroutine[Any, Any, None]]
"""What returns, awaited, when the client has left: then nobody waits for the answer any more."""
# Nearly every query is over by then; watching for a client that leaves costs a task of its own.
_SHORT_SECONDS = 0.05


class Cancellation:
    """Lets a job, which runs in a thread, know that nobody waits for it any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._interrupt: Callable[[], object] | None = None
        self._cancelled = False

    def cancel(self) -> None:
        """Interrupt what the job does now, or would begin to do."""
        with self._lock:
            self._cancelled = True
            if self._interrupt is not None:
                self._interrupt()

    def check(self) -> None:
        """Raise `CancelledError` where the job was cancelled; long jobs ask now and then."""
        if self._cancelled:
            raise CancelledError

    @contextmanager
    def interrupting(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Let `cancel` call `interrupt`, from another thread, for the length of a block."""
        with self._lock:
            self.check()
            self._interrupt = interrupt
        try:
            yield
        finally:
            with self._lock:
                self._interrupt = None


class Workers:
    """At most `threads` jobs at once and `queue` more that wait."""

    def __init__(self, name: str, threads: int, queue: int) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"strata-{name}")
        self._capacity = threads + queue
        self._lock = threading.Lock()
        self._pending = 0

    @property
    def pending(self) -> int:
        """How many jobs run or wait."""
        return self._pending

    async def close(self) -> None:
        """Forget what waits, and wait for running jobs, also those that nobody else waits for."""
        shutdown = partial(self._executor.shutdown, cancel_futures=True)
        await asyncio.to_thread(shutdown)

    async def run(
        self,
        job: Callable[[Cancellation], _Result],
        seconds: float | None = None,
        departure: Departure | None = None,
    ) -> _Result:
        """Run a job in a thread and return its result; what it raises passes through.

        Raises `UnavailableError` where the queue is full, or in place of a `ConnectionError`,
        `DeadlineError` after `seconds` of waiting and working, `CancelledError` where `departure`
        returns, as the client left.
        """
        cancellation = Cancellation()
        future = self._submit(job, cancellation)
        try:
            await asyncio.wait({future}, timeout=min(_SHORT_SECONDS, seconds or _SHORT_SECONDS))
            if not future.done():
                await _wait_on(future, seconds and seconds - _SHORT_SECONDS, departure)
        finally:
            if not future.done():
                cancellation.cancel()
                future.cancel()
        if future.cancelled():
            raise DeadlineError
        return future.result()

    def _submit(
        self, job: Callable[[Cancellation], _Result], cancellation: Cancellation
    ) -> asyncio.Future[_Result]:
        with self._lock:
            if self._pending >= self._capacity:
                raise UnavailableError("the server has too much to do: try again")
            self._pending += 1

        def run() -> _Result:
            cancellation.check()
            try:
                return job(cancellation)
            except ConnectionError as error:
                log.warning("a request could not be answered: %s", error)
                raise UnavailableError("what this needs is away for now: try again") from error

        try:
            promise = self._executor.submit(run)
        except RuntimeError:
            self._release()
            raise
        # The thread's own end counts, not that of the wait for it.
        promise.add_done_callback(self._release)
        return asyncio.wrap_future(promise)

    def _release(self, _promise: object = None) -> None:
        with self._lock:
            self._pending -= 1


async def _wait_on(
    future: asyncio.Future[Any], seconds: float | None, departure: Departure | None
) -> None:
    """Wait for the job, its time limit or the client's departure, which raises."""
    if departure is None:
        await asyncio.wait({future}, timeout=seconds)
        return
    gone = asyncio.create_task(departure())
    try:
        await asyncio.wait({future, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if gone.done() and not future.done():
            raise CancelledError
    finally:
        gone.cancel()
