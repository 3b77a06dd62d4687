"""The preloaded library that makes file operations fail, and its control block."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import subprocess
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from pathlib import Path

_SOURCE = Path(__file__).with_name("preload.c")
_LONGEST = 4096
FOR_EVER = 2**62
"""So many times that nothing works any more."""


class Kind(IntEnum):
    """A kind of file operation; numbers as in `preload.c`."""

    OPEN = 0
    CREATE = 1
    READ = 2
    WRITE = 3
    SYNC = 4
    RENAME = 5
    LINK = 6
    UNLINK = 7
    TRUNCATE = 8
    CLOSE = 9
    MKDIR = 10


class Action(IntEnum):
    """What becomes of an operation."""

    FAIL = 0
    HALF = 1
    HALF_THEN_FAIL = 2
    DIE = 3
    DIE_HALFWAY = 4


class Kinds(IntFlag):
    """Sets of kinds."""

    CHANGES = sum(1 << kind for kind in Kind if kind not in (Kind.OPEN, Kind.READ, Kind.CLOSE))
    ALL = CHANGES | 1 << Kind.OPEN | 1 << Kind.READ
    NAMES = sum(
        1 << kind
        for kind in (Kind.CREATE, Kind.RENAME, Kind.LINK, Kind.UNLINK, Kind.MKDIR, Kind.TRUNCATE)
    )
    SPACE = CHANGES & ~(1 << Kind.UNLINK)


@dataclass(frozen=True, slots=True)
class Fault:
    """From operation `number` (from 1) of `kinds` on, `times` of them go wrong."""

    kinds: int
    action: Action
    error: int
    number: int
    times: int = 1

    def __str__(self) -> str:
        names = " or ".join(kind.name.lower() for kind in Kind if self.kinds & 1 << kind)
        what = {
            Action.FAIL: errno.errorcode.get(self.error, "no error"),
            Action.HALF: "only half is written",
            Action.HALF_THEN_FAIL: f"half is written, then {errno.errorcode.get(self.error)}",
            Action.DIE: "SIGKILL",
            Action.DIE_HALFWAY: "SIGKILL, after half of a write",
        }[self.action]
        more = "" if self.times == 1 else ", and all after it"
        return f"{what} at operation {self.number} ({names}){more}"


COUNT_ONLY = Fault((1 << len(Kind)) - 1, Action.FAIL, 0, FOR_EVER)
"""Nothing goes wrong, everything is counted."""


class _Block(ctypes.Structure):
    _fields_ = (
        ("kinds", ctypes.c_int),
        ("action", ctypes.c_int),
        ("error", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("number", ctypes.c_long),
        ("times", ctypes.c_long),
        ("seen", ctypes.c_long * len(Kind)),
        ("counted", ctypes.c_long),
        ("done", ctypes.c_long),
        ("folder", ctypes.c_char * _LONGEST),
        ("path", ctypes.c_char * _LONGEST),
    )


class Control:
    """A control block that a process shares with the children that it forks afterwards."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, ctypes.sizeof(_Block))
        self._block = _Block.from_buffer(self._memory)

    def set(self, fault: Fault, folder: Path) -> None:
        """Say what is to go wrong, and below which folder; counts begin anew."""
        ctypes.memset(ctypes.byref(self._block), 0, ctypes.sizeof(_Block))
        self._block.kinds = fault.kinds
        self._block.action = fault.action
        self._block.error = fault.error
        self._block.number = fault.number
        self._block.times = fault.times
        self._block.folder = os.fsencode(folder)

    def arm(self) -> None:
        """From now on, in this process."""
        ctypes.CDLL(None).fault_arm(ctypes.byref(self._block))

    @property
    def seen(self) -> dict[Kind, int]:
        """How many operations of each kind there were."""
        return {kind: self._block.seen[kind] for kind in Kind}

    @property
    def done(self) -> int:
        """How many went wrong."""
        return int(self._block.done)

    @property
    def path(self) -> str:
        """Of what the first one was about."""
        return os.fsdecode(self._block.path)


def compile_library(folder: Path) -> Path:
    """Compile the library into a folder. Raises `FileNotFoundError` where there is no `cc`."""
    library = folder / "preload.so"
    command = ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return library
