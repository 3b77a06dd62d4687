"""What DuckDB says of the machine as the `OSError` that Python would raise.

DuckDB and Arrow hand on what the operating system says as text. Here it gets its number and its
file back, so that nobody takes a full or read-only disk for a damaged file, and a person is told
what to do about it.
"""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path

import duckdb

from transforms.machine_errors import REMEDIES, MemoryLimitError

_FILE = re.compile(r'"(?P<path>[^\n]*)"[^"\n]*: (?P<reason>[^"\n]+)$', re.MULTILINE)
_WRAPPED = re.compile(r'\{"exception_type".*\}', re.DOTALL)
_NUMBERS = {os.strerror(number): number for number in REMEDIES}
_NOT_OF_MACHINE = (duckdb.ProgrammingError, duckdb.DataError, duckdb.NotSupportedError)
Error = duckdb.Error
ABOUT_DATA = (*_NOT_OF_MACHINE, duckdb.IntegrityError, duckdb.InternalError)
"""What DuckDB raises about the data it reads and writes, where `machine_error` knows no better."""

OUT_OF_MEMORY = duckdb.OutOfMemoryException
"""What DuckDB raises where it may hold no more in memory."""

_MAX_REASON = 300
# A commit that cannot hold its blocks in memory is told of as an error of the transaction.
_NO_MEMORY = ("Out of Memory Error", "failed to pin block", "could not allocate block")


def machine_error(error: duckdb.Error | OSError, scratch: Path | None = None) -> OSError | None:
    """The error of the machine that DuckDB, or Arrow for it, tells of; None for any other error.

    `scratch` is where DuckDB puts what does not fit into memory.
    """
    if isinstance(error, _NOT_OF_MACHINE) or getattr(error, "errno", None) is not None:
        return None  # about the query or its data, which may quote anything; or known by number
    text = _unwrapped(str(error))
    if isinstance(error, duckdb.OutOfMemoryException) or any(map(text.__contains__, _NO_MEMORY)):
        return _out_of_memory(text, scratch)
    if "fsync failed!" in text:  # it names neither file nor reason
        return OSError(errno.EIO, os.strerror(errno.EIO), str(scratch) if scratch else None)
    for match in _FILE.finditer(text):
        reason = match["reason"].strip().rstrip(".")
        if reason in _NUMBERS:
            # Of several names in quotes the last one is the file's.
            return OSError(_NUMBERS[reason], reason, match["path"].rpartition('file "')[2])
    return None


def reason(error: duckdb.Error) -> str:
    """What DuckDB says in one line, without the stack and the advice that may follow."""
    return _unwrapped(str(error)).strip().splitlines()[0][:_MAX_REASON]


def _unwrapped(text: str) -> str:
    """The message inside of one that quotes another as JSON."""
    match = _WRAPPED.search(text)
    if match is None:
        return text
    try:
        return str(json.loads(match[0])["exception_message"])
    except (ValueError, LookupError, TypeError):
        return text


def _out_of_memory(text: str, scratch: Path | None) -> OSError:
    if "max_temp_directory_size" in text:  # by itself DuckDB takes what is free on the disk
        place = str(scratch) if scratch else None
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), place)
    used = re.search(r"\(([^()]* used)\)", text)
    what = "DuckDB has no more memory than it was given"
    if used is None:
        return OSError(errno.ENOMEM, what)
    return MemoryLimitError(errno.ENOMEM, f"{what} ({used[1]})")
