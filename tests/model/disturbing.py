"""Disturbing a command at one of its places: before it changes the name of a file or an object.

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
from typing import Any

import pytest

from tests.transforms.kill_process import STEPS
from transforms.stores.folder_store import FolderStore

NAME = "name"
"""Whatever changes a file's name; at the other places nobody holds a lock."""

SNAPSHOT, ZIP, DOCUMENT, DELETION = "snapshot", "zip", "document", "deletion"
_TWO_NAMES = ("os.link", "os.rename", "os.symlink")


class KilledError(BaseException):
    """The command died here. It is no `Exception`, so that no handler takes it for one."""


@dataclass(slots=True)
class Disturbance:
    """What happens before place number `left`, counted from 0, of those of a kind.

    With an `action` that is called once; without one the command dies.
    """

    folder: Path
    kind: str
    left: int
    action: Callable[[], object] | None = None
    is_done: bool = False
    lock: Lock = field(default_factory=Lock)

    def meet(self, kind: str, path: Path) -> None:
        """Take note of a place."""
        if not path.is_relative_to(self.folder):
            return
        with self.lock:
            is_now = kind == self.kind and self.left == 0 and not self.is_done
            self.left -= kind == self.kind
            self.is_done = self.is_done or is_now
        if self.action is None and self.is_done:
            raise KilledError(str(path))
        if self.action is not None and is_now:
            self.action()


_now: list[Disturbance] = []


def _meet(kind: str, path: Path) -> None:
    for disturbance in _now[-1:]:
        disturbance.meet(kind, path)


def _on_event(event: str, arguments: tuple[object, ...]) -> None:
    if _now and event in STEPS:
        _meet(NAME, Path(str(arguments[event in _TWO_NAMES])))


sys.addaudithook(_on_event)


def watch_stores(patch: pytest.MonkeyPatch) -> None:
    """Let what changes an object of a folder be a place."""
    for name in ("put_if_absent", "put_if_match", "delete"):
        patch.setattr(FolderStore, name, _watched(name, getattr(FolderStore, name)))


def _watched(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(store: FolderStore, key: str, *arguments: Any, **options: Any) -> Any:
        _meet(_kind(name, key), Path(store.describe(key)))
        return method(store, key, *arguments, **options)

    return call


def _kind(method: str, key: str) -> str:
    if method == "delete":
        return DELETION
    if key.startswith("log/"):
        return SNAPSHOT
    if key.endswith(".zip"):
        return ZIP
    return DOCUMENT if method == "put_if_match" else NAME


@contextmanager
def disturbed(disturbance: Disturbance) -> Iterator[None]:
    """Let commands of this process be disturbed during the block."""
    _now.append(disturbance)
    try:
        yield
    finally:
        _now.remove(disturbance)
