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
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from time import monotonic
from typing import Any, TypeVar, cast

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
        self._begun = False
        self._cancelled = False

    def begin(self) -> bool:
        """Whether the job may begin, which it does then."""
        with self._lock:
            self._begun = not self._cancelled
            return self._begun

    def cancel(self) -> bool:
        """Interrupt what the job does now, or would begin to do; says whether it has begun."""
        with self._lock:
            self._cancelled = True
            if self._interrupt is not None:
                self._interrupt()
            return self._begun

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
        self._name = name
        self._most = threads
        self._capacity = threads + queue
        self._refused = refused
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._pending = 0
        self._closed = False

    @property
    def pending(self) -> int:
        """How many jobs run or wait."""
        return self._pending

    async def close(self) -> None:
        """Forget what waits, and wait for running jobs, also those that nobody else waits for."""
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

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
        loop, cancellation = asyncio.get_running_loop(), Cancellation()
        future: asyncio.Future[_Result] = loop.create_future()
        self._take_place()
        self._jobs.put(partial(self._work, job, cancellation, loop, future))
        with ExitStack() as watches:
            if seconds is not None:
                late = loop.call_later(seconds, _settle, future, None, DeadlineError())
                watches.callback(late.cancel)
            if departure is not None:
                watch = partial(_watch, departure, future, watches)
                watches.callback(loop.call_later(_SHORT_SECONDS, watch).cancel)
            try:
                return await future
            except BaseException:
                if not cancellation.cancel():
                    self._release()
                raise

    def _take_place(self) -> None:
        with self._lock:
            if self._closed:
                raise RuntimeError(f"the {self._name} threads are closed")
            if self._pending >= self._capacity:
                raise UnavailableError("the server has too much to do: try again")
            self._pending += 1
            if len(self._threads) < min(self._pending, self._most):
                name = f"strata-{self._name}-{len(self._threads)}"
                thread = threading.Thread(target=self._take_jobs, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()

    def _take_jobs(self) -> None:
        while (work := self._jobs.get()) is not None:
            work()
            del work  # while it waits, a thread keeps no result of its last job

    def _work(
        self,
        job: Callable[[Cancellation], _Result],
        cancellation: Cancellation,
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[_Result],
    ) -> None:
        """Do a job, unless nobody waits for it any more, and tell who waits."""
        if not cancellation.begin():
            return
        result: _Result | None = None
        error: BaseException | None = None
        try:
            result = self._result(job, cancellation)
        except BaseException as reason:  # noqa: BLE001 - it is raised where the job is waited for
            error = reason
        # Its own end counts, not that of the wait for it.
        self._release()
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(_settle, future, result, error)

    def _result(
        self, job: Callable[[Cancellation], _Result], cancellation: Cancellation
    ) -> _Result:
        if self._closed:
            raise DeadlineError
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

    def _release(self) -> None:
        with self._lock:
            self._pending -= 1


def _settle(
    future: asyncio.Future[_Result], result: _Result | None, error: BaseException | None
) -> None:
    """End the wait for a job, unless it has ended."""
    if future.done():
        return
    if error is None:
        future.set_result(cast("_Result", result))
    else:
        future.set_exception(error)


def _watch(departure: Departure, future: asyncio.Future[Any], watches: ExitStack) -> None:
    """Watch for the client's departure from now on."""

    async def watch() -> None:
        await departure()
        _settle(future, None, CancelledError())

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
