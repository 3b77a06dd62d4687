"""Errors at the edge of the command line: a sentence on stderr and an exit code for scripts.

0  done                      4  other bytes already stand in the archive
1  something failed, or      5  something written earlier is damaged
   findings were made        6  somebody else holds a lock: try again
2  wrong usage or setting    7  the machine: disk, permissions, network
3  a block range that is     130  interrupted
   not held or not aligned
"""

from __future__ import annotations

from transforms.errors import (
    BusyError,
    ConfigError,
    ConflictError,
    IntegrityError,
    RangeError,
    StrataError,
)

OK, FINDINGS, INTERRUPTED = 0, 1, 130

EXIT_CODES: dict[type[Exception], int] = {
    ConfigError: 2,
    RangeError: 3,
    ConflictError: 4,
    IntegrityError: 5,
    BusyError: 6,
    StrataError: 1,
    OSError: 7,
}
"""The exit code of each kind of error; the first class that fits counts."""


def exit_code(error: Exception) -> int:
    """The exit code for an error that `EXIT_CODES` knows."""
    return next(code for kind, code in EXIT_CODES.items() if isinstance(error, kind))


def sentence(error: Exception) -> str:
    """The message for a person, on one line."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return " ".join(str(error).split())
