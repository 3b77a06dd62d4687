"""Campaigns, each in as many processes as there are cores, with the library preloaded."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector

from tests.faults.library import compile_library
from tests.faults.orders import Order
from tests.faults.results import Result, parse_result
from tests.weed_kit import SESSION

_PROJECT = Path(__file__).parents[2]
_WAITING = 2
"""How many processes a core can have where they mostly wait for answers that do not come."""

_MEMORY = Path("/dev/shm")  # what a try writes is not worth a disk


def run_order(order: Order, processes: int = 0) -> Iterator[Result]:
    """Do the tries of an order; yields results as they come.

    Raises `FileNotFoundError` where there is no `cc`, `RuntimeError` where a process breaks.
    """
    cores = os.cpu_count() or 1
    wanted = processes or cores * (_WAITING if order.campaign == "proxy" else 1)
    count = min(wanted, len(order.numbers))
    shares = [replace(order, numbers=order.numbers[at::count]) for at in range(count)]
    yield from _results([(share,) for share in shares])


def run_one_by_one(orders: Sequence[Order]) -> Iterator[Result]:
    """Do the tries of some orders in one process, as starting it takes as long as a few tries."""
    yield from _results([orders])


def _results(shares: Sequence[Sequence[Order]]) -> Iterator[Result]:
    """Do each share in a process of its own."""
    with ExitStack() as kept:
        where = _MEMORY if _MEMORY.is_dir() else None
        folder = Path(kept.enter_context(tempfile.TemporaryDirectory("-strata-faults", dir=where)))
        library = compile_library(folder)
        selector = kept.enter_context(DefaultSelector())
        for share in shares:
            process = kept.enter_context(_start(share, folder, library))
            kept.callback(process.terminate)
            assert process.stdout is not None
            selector.register(process.stdout, EVENT_READ, process)
        while selector.get_map():
            for key, _ in selector.select():
                line = key.fileobj.readline()  # type: ignore[union-attr]
                if line:
                    yield parse_result(line)
                    continue
                selector.unregister(key.fileobj)
                if key.data.wait() != 0:
                    raise RuntimeError("a process that tries broke: see above")


@cache
def _servers() -> str:
    """The folder of the S3 server that all processes share; it goes with the last of them."""
    return os.environ.get(SESSION) or tempfile.mkdtemp(prefix="strata-servers-")


def _start(orders: Sequence[Order], folder: Path, library: Path) -> subprocess.Popen[str]:
    dumped = [order.dump() for order in orders]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.worker", str(folder), *dumped],
        stdout=subprocess.PIPE,
        text=True,
        cwd=_PROJECT,
        env={
            **os.environ,
            "LD_PRELOAD": str(library),
            "PYTHONUNBUFFERED": "1",
            SESSION: _servers(),
        },
    )
