"""Ctrl-C and SIGTERM: a command ends at once, whatever it is doing, with one line.

What is written stays whole: unfinished files lie in scratch folders, which the next command sweeps.
Python runs its signal handlers only between its own instructions, so a thread of ours hears of a
signal besides, stops queries of DuckDB, and ends the process where all of that does not.
"""

from __future__ import annotations

import _thread
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from transforms import interrupts

SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
_GRACE_SECONDS = 4.0  # to write down that a run ends, and to remove what is unfinished
_REPEAT_SECONDS = 0.05
_SIGNAL_CODES = 128

_before: dict[int, Any] = {}  # the handlers of those who called
_left_alone = threading.Event()
_postponed = threading.Event()
_message_lock = threading.Lock()


@contextmanager
def stopping_on_signals(*, last: bool = False) -> Iterator[None]:
    """Leave the process, with 128 and the signal's number, on a signal during the block.

    Where the block is the last thing the process does, what was asked for is done at its end: a
    signal that comes while Python takes itself down no longer turns that into a failure.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may ask for signals
        return
    _left_alone.clear()
    _postponed.clear()
    hearing, telling = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(telling, False)
    sys.unraisablehook = _report_unraisable
    former = signal.set_wakeup_fd(telling, warn_on_full_buffer=False)
    try:
        _take_signals()
        threading.Thread(target=_listen, args=(hearing,), daemon=True).start()
        yield
    finally:
        with suppress(KeyboardInterrupt):  # of a signal that came just before
            _give_back_signals(signal.SIG_IGN if last else None)
        if interrupts.requested():
            _leave(interrupts.requested())
        signal.set_wakeup_fd(former)
        os.close(telling)  # which ends the thread


def leave_signals() -> None:
    """Let a command have its own way with signals, from now on."""
    _left_alone.set()
    _give_back_signals(None)


def _take_signals() -> None:
    """Handle all signals, and block those that were ignored: a shell ignores SIGINT after `&`.

    Dagster handles both signals during a run, and afterwards gives SIGTERM the handler of SIGINT.
    So a handler must not say that a signal is ignored; whoever changes it, a blocked one stays so.
    """
    _before.update((number, signal.getsignal(number)) for number in SIGNALS)
    signal.pthread_sigmask(signal.SIG_BLOCK, _ignored())
    for number in SIGNALS:
        signal.signal(number, _raise)


def _give_back_signals(handler: signal.Handlers | None) -> None:
    """Give signals that are ours this handler, or the one before."""
    for number, former in _before.items():
        if signal.getsignal(number) is _raise:
            signal.signal(number, former if handler is None else handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ignored())


def _ignored() -> set[int]:
    return {number for number, handler in _before.items() if handler is signal.SIG_IGN}


def _raise(number: int, frame: FrameType | None) -> None:
    _be_quiet()
    interrupts.interrupt_all(number)
    if _is_importing(frame):
        _postponed.set()  # a module in C++ that cannot begin aborts the process
    else:
        raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported at this place."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _listen(hearing: int) -> None:
    """Wait for signals; the numbers of those that Python has a handler for come as bytes."""
    try:
        while data := os.read(hearing, 1):
            if not _left_alone.is_set() and data[0] in SIGNALS:
                _stop(hearing, data[0])
    finally:
        os.close(hearing)


def _stop(hearing: int, number: int) -> None:
    """End the process: by itself, or after a while, or with the next signal."""
    _be_quiet()
    deadline = time.monotonic() + _GRACE_SECONDS
    while time.monotonic() < deadline:
        # Again and again: what begins after one of these would run on.
        interrupts.interrupt_all(number)
        if select.select([hearing], [], [], _REPEAT_SECONDS)[0]:
            break
        if _postponed.is_set():
            _interrupt_main(hearing, number)
    _leave(number)


def _interrupt_main(hearing: int, number: int) -> None:
    """Let the main thread handle the signal again; what that says of it here is no new one."""
    _postponed.clear()
    _thread.interrupt_main(signal.Signals(number))
    if select.select([hearing], [], [], 0)[0]:
        os.read(hearing, 1)


def _be_quiet() -> None:
    """What goes wrong because all is being stopped is of no use to anybody."""
    logging.disable(logging.CRITICAL)
    threading.excepthook = _ignore


def _report_unraisable(problem: sys.UnraisableHookArgs) -> None:
    """Send a signal once more whose handler raised in a destructor, where nothing can be raised."""
    if not isinstance(problem.exc_value, Exception):
        _postponed.set()
    elif not interrupts.requested():
        sys.__unraisablehook__(problem)


def _ignore(_problem: object) -> None:
    """Say nothing."""


def _leave(number: int) -> None:
    """Say so, once, and end the process without waiting for threads or connections."""
    if _message_lock.acquire(blocking=False):
        line = f"strata: {SIGNALS[signal.Signals(number)]}: run it again to go on\n"
        os.write(2, line.encode())
        os._exit(_SIGNAL_CODES + number)
    threading.Event().wait()  # the other thread is leaving
