"""Stopping what runs outside of Python, which sees no Ctrl-C until it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock

_lock = RLock()
_running: dict[object, Callable[[], object]] = {}
_requested: list[int] = []


@contextmanager
def interruptible(interrupt: Callable[[], object]) -> Iterator[None]:
    """Let `interrupt_all` call this, from another thread, for the length of a block."""
    key = object()
    with _lock:
        _running[key] = interrupt
    try:
        yield
    finally:
        with _lock:
            del _running[key]


def interrupt_all(signal_number: int) -> None:
    """Stop all that runs, because of a signal. What begins afterwards needs another call."""
    with _lock:
        if not _requested:
            _requested.append(signal_number)
        for interrupt in _running.values():
            interrupt()


def requested() -> int:
    """The number of the signal that asked this process to stop; 0 where none did."""
    return _requested[0] if _requested else 0
