"""Reading files that may be damaged: what stops the reading is said in words.

One file that cannot be read does not keep the others from being read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import duckdb

from transforms.duck import Connection, naming_large
from transforms.errors import BusyError, StrataError
from transforms.scratch import scratch_folder
from transforms.verifying.findings import unreadable
from transforms.warehouse.files.backing import Backing

Opening = Callable[[Path], AbstractContextManager[Connection]]
"""From a scratch folder to a DuckDB in use."""

# What rows that were damaged, and not found out by checksums, can make of parsing.
_NONSENSE = (StrataError, ValueError, TypeError, LookupError)


class FileReader:
    """Reads by a DuckDB that is opened when it is first needed."""

    def __init__(self, opening: Opening, scratch: Path, stack: ExitStack) -> None:
        self.scratch = scratch
        self._opening = opening
        self._stack = stack
        self._open: Connection | None = None

    def problem(self, path: Path, read: Callable[[Connection], str]) -> str:
        """What `read` says is wrong with a file, or why it cannot; errors of the machine pass."""
        try:
            if self._open is None:
                self._open = self._stack.enter_context(self._opening(self.scratch))
            with naming_large(str(path), self.scratch):
                return read(self._open)
        except OSError as error:
            if not error.filename:
                raise
            return unreadable(error, str(path))
        except BusyError:
            raise
        except duckdb.Error as error:
            self._open = None  # an error may make DuckDB refuse everything that follows
            self._stack.close()
            return f"it cannot be read ({str(error).splitlines()[0]})"
        except (sqlite3.Error, *_NONSENSE) as error:
            return f"it cannot be read ({' '.join(str(error).split())})"


@contextmanager
def file_reader(backing: Backing, opening: Opening) -> Iterator[FileReader]:
    """A reader for the files of a warehouse, with scratch of its own."""
    with scratch_folder(backing.scratch) as scratch, ExitStack() as stack:
        yield FileReader(opening, scratch, stack)
