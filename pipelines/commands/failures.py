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

import sys
from collections.abc import Iterator

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

_EXTRAS = {
    "s3": ("boto3", "botocore"),
    "serve": ("grpc", "grpc_health", "grpc_reflection", "google", "starlette", "uvicorn"),
    "pipeline": ("dagster", "duckdb", "orjson", "polars", "pyarrow", "pydantic"),
}
_EXIT_CODES: dict[type[Exception], int] = {
    ConfigError: 2,
    RangeError: 3,
    ConflictError: CONFLICT,
    IntegrityError: DAMAGED,
    BusyError: 6,
    StrataError: FINDINGS,
    OSError: MACHINE,
    ModuleNotFoundError: 2,
}


def known_errors() -> tuple[type[Exception], ...]:
    """The errors that end a command with a sentence."""
    return (*_EXIT_CODES, *_duckdb_errors())


def exit_code(error: Exception) -> int:
    """The exit code of one of `known_errors`: the first class that fits counts."""
    codes = (code for kind, code in _EXIT_CODES.items() if isinstance(error, kind))
    return next(codes, DAMAGED)


def sentence(error: Exception) -> str:
    """The message for a person, on one line."""
    if isinstance(error, OSError):
        return machine_sentence(error)
    if isinstance(error, ModuleNotFoundError):
        name = (error.name or "").partition(".")[0]
        extra = next((candidate for candidate, names in _EXTRAS.items() if name in names), "all")
        return f"this needs {name}, which is not installed: pip install 'strata[{extra}]'"
    if isinstance(error, tuple(_duckdb_errors())):
        # What the machine says is an `OSError` by now: what is left is about the file itself.
        message = " ".join(str(error).partition("\n")[0].split())
        return f"DuckDB says: {message}: strata verify finds what is damaged, and says what to do"
    return " ".join(str(error).split())


def _duckdb_errors() -> Iterator[type[Exception]]:
    """DuckDB's errors, where it was imported: who only fetches has no DuckDB."""
    if "duckdb" in sys.modules:
        from transforms.duck_errors import Error

        yield Error
