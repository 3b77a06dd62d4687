"""Blocking work for an event loop: a few threads, a short queue, a time limit, a way to stop.

A job may be left behind by whoever waited for it. So what it opens it closes, on its thread, before
it ends; what it returns is plain data, which nobody has to close.

DuckDB and object stores block. Their calls run here, never on the loop; what does not fit into the
queue is refused at once, so that a flood costs its clients a retry and not a timeout. A query runs
on the newest snapshot; the rate limit, the counters and the block that its answer is about are
the same for both shells. A file is read one block at a time, for as long as somebody takes them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from api.core.api_errors import ApiError, CancelledError, Code, DeadlineError, UnavailableError
from api.core.clients import Admission, RateLimiter
from api.core.open_snapshots import Block, OpenSnapshots, Reading
from api.core.telemetry import Metrics, log
from transforms.errors import ConfigError
from transforms.machine_errors import REMEDIES, sentence

_Result = TypeVar("_Result")
Departure = Callable[[], Coroutine[Any, Any, None]]
"""What returns, awaited, when the client has left: then nobody waits for the answer any more."""
# Nearly every query is over by then; watching for a client that leaves costs a task of its own.
_SHORT_SECONDS = 0.05
_Answer = TypeVar("_Answer")
Headers = tuple[tuple[str, str], ...]
BLOCK_BYTES = 2**20
Read = Callable[[int, int], bytes]
"""Reads the bytes from a start to a stop; it blocks, and leaves nothing open."""


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

    @contextmanager
    def interrupting(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Let `cancel` call `interrupt`, from another thread, for the length of a block."""
        with self._lock:
            if self._cancelled:
                raise CancelledError
            self._interrupt = interrupt
        try:
            yield
        finally:
            with self._lock:
                self._interrupt = None


class Workers:
    """At most `threads` jobs at once and `queue` more that wait.

    `refused` is called if a job may not read what it needs.
    """

    def __init__(
        self, name: str, threads: int, queue: int, refused: Callable[[], None] = lambda: None
    ) -> None:
        self._pool = ThreadPoolExecutor(threads, f"strata-{name}")
        self._most = threads + queue
        self._refused = refused
        self._pending: set[Future[Any]] = set()

    @property
    def pending(self) -> int:
        """How many jobs run or wait."""
        return len(self._pending)

    async def close(self) -> None:
        """Forget what waits, and wait for running jobs, also those that nobody else waits for."""
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)

    async def run(
        self,
        job: Callable[[Cancellation], _Result],
        seconds: float | None = None,
        departure: Departure | None = None,
    ) -> _Result:
        """Run a job in a thread and return its result; what it raises passes through.

        Raises `UnavailableError` where the queue is full, or in place of a `ConnectionError`, a
        `ConfigError` or an error of the machine,
        `DeadlineError` after `seconds` of waiting and working, `CancelledError` where `departure`
        returns, as the client left.
        """
        if self.pending >= self._most:
            raise UnavailableError("the server has too much to do: try again")
        loop, cancellation = asyncio.get_running_loop(), Cancellation()
        result: asyncio.Future[_Result] = loop.create_future()
        work = self._pool.submit(self._result, job, cancellation)
        self._pending.add(work)
        work.add_done_callback(partial(self._pass_on, loop, result))
        with ExitStack() as watches:
            if seconds is not None:
                late = loop.call_later(seconds, _fail, result, DeadlineError())
                watches.callback(late.cancel)
            if departure is not None:
                watch = partial(_watch, departure, result, watches)
                watches.callback(loop.call_later(_SHORT_SECONDS, watch).cancel)
            try:
                return await result
            except BaseException:
                work.cancel()
                cancellation.cancel()
                raise

    def _result(
        self, job: Callable[[Cancellation], _Result], cancellation: Cancellation
    ) -> _Result:
        """The result of a job; what the machine or a store says becomes an error to answer."""
        try:
            return job(cancellation)
        except ConnectionError as error:
            log.warning("a request could not be answered: %s", error)
            raise UnavailableError("what this needs is away for now: try again") from error
        except ConfigError as error:  # credentials of a bucket, which may be renewed
            log.error("a request could not be answered: %s", error)  # noqa: TRY400 - a sentence
            self._refused()
            raise UnavailableError("the server may not read what this needs: try again") from error
        except OSError as error:
            if error.errno not in REMEDIES:
                raise
            log.error("a request could not be answered: %s", sentence(error))  # noqa: TRY400
            what = "the server's machine fails, and its log names the file: try again"
            raise UnavailableError(f"{what} ({error.strerror})") from error

    def _pass_on(
        self,
        loop: asyncio.AbstractEventLoop,
        result: asyncio.Future[_Result],
        work: Future[_Result],
    ) -> None:
        """Free the place of a job that has ended, and tell who waits for it."""
        self._pending.discard(work)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(_settle, result, work)


def _settle(result: asyncio.Future[_Result], work: Future[_Result]) -> None:
    """End the wait for a job that has ended, or will never begin as its workers are closed."""
    error = DeadlineError() if work.cancelled() else work.exception()
    if error is not None:
        _fail(result, error)
    elif not result.done():
        result.set_result(work.result())


def _fail(result: asyncio.Future[Any], error: BaseException) -> None:
    """End the wait for a job with an error, unless it has ended."""
    if not result.done():
        result.set_exception(error)


def _watch(departure: Departure, result: asyncio.Future[Any], watches: ExitStack) -> None:
    """Watch for the client's departure from now on."""

    async def watch() -> None:
        await departure()
        _fail(result, CancelledError())

    watches.callback(asyncio.create_task(watch()).cancel)


Query = Callable[[Reading], _Answer]
"""What is run; it blocks, and long ones call `Reading.check_interrupt` now and then."""


@dataclass(frozen=True, slots=True)
class QueryRunner:
    """Runs the queries of one kind. `seconds` is the time limit of one.

    Those that need no rows are run even where some are lost.
    """

    snapshots: OpenSnapshots
    workers: Workers
    metrics: Metrics
    seconds: float
    limiter: RateLimiter | None = None
    needs_rows: bool = True

    def admit(self, client: str) -> Admission:
        """Whether a client may ask now; counted."""
        if self.limiter is None:
            return Admission()
        admission = self.limiter.admit(client, monotonic())
        if admission.refusal is not None:
            self.metrics.limited.inc()
        return admission

    async def run(
        self,
        query: Query[_Answer],
        departure: Departure | None = None,
        seconds: float | None = None,
    ) -> tuple[_Answer, Block | None]:
        """The answer, and the newest block that it knows of; see `Workers.run`.

        `seconds` is the client's time limit, where it is shorter than that of the kind.
        Cancelling the task that waits for it interrupts the query.
        """

        def job(cancellation: Cancellation) -> tuple[_Answer, Block | None]:
            with (
                self.snapshots.reading(needs_rows=self.needs_rows) as reading,
                cancellation.interrupting(reading.interrupt),
            ):
                return query(reading), reading.snapshot.newest

        try:
            limit = self.seconds if seconds is None else min(seconds, self.seconds)
            return await self.workers.run(job, limit, departure)
        except ApiError as error:
            self._count(error)
            raise

    @property
    def newest(self) -> Block | None:
        """The newest block of the newest snapshot."""
        snapshot = self.snapshots.current
        return snapshot.newest if snapshot else None

    def _count(self, error: ApiError) -> None:
        if isinstance(error, DeadlineError):
            self.metrics.timed_out.inc()
        elif error.code is Code.UNAVAILABLE:
            self.metrics.refused.inc()


def block_headers(newest: Block | None) -> Headers:
    """The headers that say which block an answer is about (decision 28)."""
    height, time = (newest.height, newest.time) if newest else (0, 0)
    return (
        ("x-block-height", str(height)),
        ("x-block-timestamp", str(time)),
    )


async def blocks(workers: Workers, read: Read, start: int, stop: int) -> AsyncGenerator[bytes]:
    """Yield the bytes from a start to a stop; what reading them raises passes through.

    Each block is a job of its own: who leaves during one, or between two, leaves nothing behind.
    """
    for at in range(start, stop, BLOCK_BYTES):
        end = min(at + BLOCK_BYTES, stop)
        yield await workers.run(lambda _, at=at, end=end: read(at, end))  # type: ignore[misc]
