"""Repairs copies of a warehouse, each killed one step later than the one before.

    python -m tests.transforms.kill_process TEMPLATE COPIES KILLS

A step is whatever gives a file its name or takes one away. `COPIES/1` is killed by SIGKILL before
the first one, `COPIES/2` before the second, until one comes to its end. With KILLS of less than
`EVERY_STEP`, steps are passed over that follow one inside the scratch folders: the warehouse is the
same before them as before the step that is not, and there is less scratch.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

from transforms.warehouse.checks.log_repair import repair
from transforms.warehouse.warehouse_address import open_warehouse

_PROJECT = Path(__file__).parents[2]
EVERY_STEP = 100
STEPS = ("os.link", "os.rename", "os.remove", "os.rmdir", "os.symlink")
SCRATCH = {"scratch", ".strata-scratch"}


def killed_copies(template: Path, copies: Path, kills: int) -> list[Path]:
    """Run this program; the copies of a warehouse that it leaves in a new folder."""
    copies.mkdir()
    program = (sys.executable, "-m", "tests.transforms.kill_process")
    subprocess.run([*program, template, copies, str(kills)], cwd=_PROJECT, check=True)
    return sorted(copies.iterdir())


def act(root: Path) -> None:
    """Do it once."""
    repair(open_warehouse(root).backing)


def _is_scratch(event: str, arguments: tuple[object, ...], root: Path) -> bool:
    """Whether a step gives or takes a name inside the scratch folders only."""
    target = arguments[1] if event in ("os.link", "os.rename", "os.symlink") else arguments[0]
    return Path(str(target)).relative_to(root).parts[0] in SCRATCH


def _kill_before(step: int, root: Path, *, is_every: bool) -> None:
    left, is_next = step, True

    def on_event(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left, is_next
        if event in STEPS and str(arguments[0]).startswith(str(root)):
            left -= is_every or is_next
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            is_next = not _is_scratch(event, arguments, root)

    sys.addaudithook(on_event)


def main() -> None:
    """Kill one process after another."""
    template, copies = Path(sys.argv[1]), Path(sys.argv[2])
    is_every = int(sys.argv[3]) >= EVERY_STEP
    for step in count(1):
        root = copies / str(step)
        shutil.copytree(template, root, symlinks=True)
        child = os.fork()  # nothing runs here yet but this
        if child == 0:
            _kill_before(step, root, is_every=is_every)
            act(root)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
