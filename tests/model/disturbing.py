"""Disturbing a command where it is about to change the name of a file.

It dies there: nothing below the folder gets or loses a name any more, whatever is left to be
tidied up, as after SIGKILL. Or another command runs there first, as another machine might.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from tests.transforms.kill_process import SCRATCH, STEPS

_TWO_NAMES = ("os.link", "os.rename", "os.symlink")


class KilledError(BaseException):
    """The command died here. It is no `Exception`, so that no handler takes it for one."""


@dataclass(slots=True)
class Disturbance:
    """What happens before step number `left`, counted from 0, of those that `counts` says.

    With an `action` that is called once; without one the command dies.
    """

    folder: Path
    left: int
    action: Callable[[], object] | None = None
    is_done: bool = False
    lock: Lock = field(default_factory=Lock)

    def meet(self, event: str, place: Path) -> None:
        """Take note of a step."""
        if not place.is_relative_to(self.folder):
            return
        if self.action is None:
            self._die(place)
        elif event == "os.link" and _is_outside(place):
            self._interrupt(self.action)

    def _die(self, place: Path) -> None:
        with self.lock:
            self.is_done = self.is_done or self.left <= 0
            self.left -= 1
        if self.is_done:
            raise KilledError(str(place))

    def _interrupt(self, action: Callable[[], object]) -> None:
        with self.lock:
            is_now = self.left == 0
            self.left -= 1
        if is_now and not self.is_done:
            self.is_done = True
            action()


def _is_outside(place: Path) -> bool:
    """Whether another machine may work meanwhile: nobody holds a lock that it would wait for."""
    return SCRATCH.isdisjoint(place.parts) and ("log" in place.parts or place.suffix == ".zip")


_now: list[Disturbance] = []


def _on_event(event: str, arguments: tuple[object, ...]) -> None:
    if not _now or event not in STEPS:
        return
    place = Path(str(arguments[event in _TWO_NAMES]))
    for disturbance in _now[-1:]:
        if disturbance.action is None or not disturbance.is_done:
            disturbance.meet(event, place)


sys.addaudithook(_on_event)


@contextmanager
def disturbed(disturbance: Disturbance) -> Iterator[None]:
    """Let commands of this process be disturbed during the block."""
    _now.append(disturbance)
    try:
        yield
    finally:
        _now.remove(disturbance)
