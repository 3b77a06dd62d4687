"""Measures a function in a process of its own: seconds of wall and processor time, peak memory."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path


@dataclass(frozen=True)
class Cost:
    """Seconds of wall time, seconds of processor time (all threads), peak resident bytes."""

    wall: float
    cpu: float
    peak: int


def measured(work: Callable[..., object], *arguments: object) -> Cost:
    """Run `work(*arguments)` in a fresh process and say what it cost. Raises where it failed."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(theirs, work, arguments))
    process.start()
    theirs.close()
    try:
        cost: Cost = ours.recv()
    except EOFError:
        cost = Cost(0, 0, 0)
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{work.__name__} ended with exit code {process.exitcode}")
    return cost


def _run(pipe: Connection, work: Callable[..., object], arguments: tuple[object, ...]) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    work(*arguments)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    pipe.send(Cost(wall, cpu, _peak()))
    pipe.close()


def _peak() -> int:
    """The peak of this process; `ru_maxrss` would begin with that of the one that started it."""
    (line,) = (
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    )
    return int(line.split()[1]) * 1024
