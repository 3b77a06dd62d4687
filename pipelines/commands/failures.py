"""Errors at the edge of the command line: a sentence on stderr and an exit code for scripts.

0  done                      5  something written earlier is damaged, or findings were made
1  something was refused,    6  somebody else holds a lock: try again
   or is not done            7  the machine: disk, memory, permissions, network
2  wrong usage or setting
3  a block range that is     130  interrupted (Ctrl-C)
   not held or not aligned   143  terminated (SIGTERM)
4  other bytes already stand in the archive
"""

from __future__ import annotations

from transforms.duck import Error as DuckError
from transforms.errors import (
    BusyError,
    ConfigError,
    ConflictError,
    IntegrityError,
    RangeError,
    StrataError,
)
from transforms.machine_errors import sentence as machine_sentence

OK, FINDINGS, CONFLICT, DAMAGED, MACHINE, INTERRUPTED = 0, 1, 4, 5, 7, 130

EXIT_CODES: dict[type[Exception], int] = {
    ConfigError: 2,
    RangeError: 3,
    ConflictError: CONFLICT,
    IntegrityError: DAMAGED,
    BusyError: 6,
    StrataError: FINDINGS,
    OSError: MACHINE,
    DuckError: DAMAGED,
}
"""The exit code of each kind of error; the first class that fits counts."""


def exit_code(error: Exception) -> int:
    """The exit code for an error that `EXIT_CODES` knows."""
    return next(code for kind, code in EXIT_CODES.items() if isinstance(error, kind))


def sentence(error: Exception) -> str:
    """The message for a person, on one line."""
    if isinstance(error, OSError):
        return machine_sentence(error)
    if isinstance(error, DuckError):
        # What the machine says is an `OSError` by now: what is left is about the file itself.
        said = " ".join(str(error).partition("\n")[0].split())
        return f"DuckDB says: {said}: strata verify finds what is damaged, and says what to do"
    return " ".join(str(error).split())
