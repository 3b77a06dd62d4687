"""Threads, queue, time limit and interruption, without a server around them."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from api.core.api_errors import CancelledError, DeadlineError, UnavailableError
from api.core.workers import Cancellation, Workers


@pytest.fixture
def workers() -> Iterator[Workers]:
    found = Workers("test", threads=1, queue=1)
    yield found
    asyncio.run(found.close())


class _Blocked:
    """A job that works until it is interrupted or released."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.go = threading.Event()
        self.interrupted = threading.Event()

    def __call__(self, cancellation: Cancellation) -> str:
        with cancellation.interrupting(self._interrupt):
            self.began.set()
            self.go.wait(10)
        return "done"

    def _interrupt(self) -> None:
        self.interrupted.set()
        self.go.set()


async def _leaves() -> None:
    pass


async def _stays() -> None:
    await asyncio.Event().wait()


def test_a_job_returns_its_result_or_raises_its_own_error(workers: Workers) -> None:
    async def run() -> None:
        assert await workers.run(lambda _: 42) == 42
        with pytest.raises(KeyError):
            await workers.run(lambda _: dict[str, int]()["x"], seconds=5, departure=_stays)

    asyncio.run(run())


def test_a_result_is_not_kept_until_the_time_limit_of_its_job(workers: Workers) -> None:
    results: list[weakref.ref[set[int]]] = []

    def job(_: Cancellation) -> set[int]:
        result = set(range(9))
        results.append(weakref.ref(result))
        return result

    async def run() -> None:
        assert len(await workers.run(job, seconds=60, departure=_stays)) == 9
        await workers.run(lambda _: None)  # the thread is done with the first one
        gc.collect()
        assert [result() for result in results] == [None]

    asyncio.run(run())


def test_closing_waits_for_a_job_that_was_left_behind() -> None:
    steps = []

    async def run() -> None:
        began, go = threading.Event(), threading.Event()

        def job(_: Cancellation) -> None:
            began.set()
            go.wait(10)
            steps.append("the job ended")

        workers = Workers("test", threads=1, queue=1)
        waiting = asyncio.create_task(workers.run(job))
        assert await asyncio.to_thread(began.wait, 10)
        waiting.cancel()
        await asyncio.wait({waiting})
        closing = asyncio.create_task(workers.close())
        await asyncio.sleep(0)
        assert not closing.done()
        go.set()
        await closing
        steps.append("closed")

    asyncio.run(run())
    assert steps == ["the job ended", "closed"]


def test_a_full_queue_refuses_at_once_and_takes_work_again_later(workers: Workers) -> None:
    async def run() -> None:
        first, second = _Blocked(), _Blocked()
        running = [asyncio.create_task(workers.run(job)) for job in (first, second)]
        await asyncio.to_thread(first.began.wait, 10)
        with pytest.raises(UnavailableError):
            await workers.run(lambda _: None)
        first.go.set()
        second.go.set()
        assert await asyncio.gather(*running) == ["done", "done"]
        assert await workers.run(lambda _: "again") == "again"

    asyncio.run(run())


def test_a_job_beyond_its_time_is_interrupted_and_its_place_is_free_when_it_ends(
    workers: Workers,
) -> None:
    async def run() -> None:
        job = _Blocked()
        with pytest.raises(DeadlineError):
            await workers.run(job, seconds=0.01)
        assert await asyncio.to_thread(job.interrupted.wait, 10)
        assert await workers.run(lambda _: "next") == "next"
        assert workers.pending == 0

    asyncio.run(run())


def test_a_job_whose_client_left_is_interrupted(workers: Workers) -> None:
    async def run() -> None:
        job = _Blocked()
        with pytest.raises(CancelledError):
            await workers.run(job, seconds=10, departure=_leaves)
        assert await asyncio.to_thread(job.interrupted.wait, 10)

    asyncio.run(run())


def test_a_job_that_waited_too_long_never_starts(workers: Workers) -> None:
    async def run() -> None:
        first, second = _Blocked(), _Blocked()
        running = asyncio.create_task(workers.run(first))
        await asyncio.to_thread(first.began.wait, 10)
        with pytest.raises(DeadlineError):
            await workers.run(second, seconds=0.01)
        first.go.set()
        await running
        assert await workers.run(lambda _: "next") == "next"
        assert not second.began.is_set()

    asyncio.run(run())
