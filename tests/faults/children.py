"""Commands in children: forked, given an environment, watched, and killed where they hang."""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

HANG_SECONDS = 90.0
"""No command here takes a third of it, whatever becomes of it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: its exit code (below 0: the signal), its output, how long it took.

    `hung` says that it had to be killed.
    """

    code: int
    out: str
    err: str
    seconds: float
    hung: bool = False


def in_child(work: Callable[[], int], folder: Path, *, kill_after: float | None = None) -> Ended:
    """Run `work` in a child, which ends with the code it returns; output goes through `folder`.

    The child is killed after `kill_after` seconds, if it still runs. A traceback of every thread of
    one that hangs is in its output.
    """
    out, err = folder / "stdout", folder / "stderr"
    started = time.monotonic()
    child = os.fork()
    if not child:
        _be_child(work, out, err)
    hung = False
    if not _ended_within(child, HANG_SECONDS if kill_after is None else kill_after):
        if kill_after is None:
            hung = True
            os.kill(child, signal.SIGABRT)
            _ended_within(child, 5)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    seconds = time.monotonic() - started
    texts = [path.read_text(errors="replace") for path in (out, err)]
    return Ended(os.waitstatus_to_exitcode(status), texts[0], texts[1], seconds, hung)


def run_main(main: Callable[[list[str]], object], arguments: list[str]) -> int:
    """Call a program's `main` as a new process would; returns its exit code."""
    try:
        main(arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    return 0


def use(environment: Mapping[str, str]) -> None:
    """Set variables of this process; of settings there are no others."""
    for name in [name for name in os.environ if name.startswith("STRATA_")]:
        del os.environ[name]
    os.environ.update(environment)
    tempfile.tempdir = None  # what was chosen before is another one's


def _be_child(work: Callable[[], int], out: Path, err: Path) -> None:
    code = 1
    try:
        for path, number in ((out, 1), (err, 2)):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, number)
            os.close(file)
        faulthandler.enable()
        code = work()
    except BaseException:  # noqa: BLE001 - as the interpreter does at the end of a program
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _ended_within(child: int, seconds: float) -> bool:
    file = os.pidfd_open(child)
    poll = select.poll()
    poll.register(file, select.POLLIN)
    ended = bool(poll.poll(seconds * 1000))
    os.close(file)
    return ended
