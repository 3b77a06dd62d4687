"""Index files: what servers look up by key, in one SQLite file beside the data files of a run.

A file is written once, whole, and never changes; readers open it read-only and immutable, so that
SQLite looks for no log and locks nothing. Besides page tables it has the table `facts`: a name and
bytes, with their CRC-32. The fact `tables` names the tables whose rows it has.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
from collections import OrderedDict
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

import orjson
from isal import isal_zlib

from transforms.errors import IntegrityError, UnreadableFilesError
from transforms.files import sync_file
from transforms.lookups.key_filter import KeyFilter
from transforms.lookups.key_pages import Key, PageTable, read_pages

SUFFIX = ".sqlite"
TABLES = "tables"

MOST_FILTER_BYTES = 64 * 2**20
"""What the filters of keys in a process take at the most; files beyond that are asked without."""

_LARGEST_FILTER = 16

MOST_OPEN = 256
"""How many connections that nobody uses a process keeps, of all index files together."""

# A page of rows takes about 3 kB: of four in one of SQLite's less stays empty than of one.
_PAGE_BYTES = 16_384
# Only the upper pages of a file's trees are worth it: the kernel has all.
_CACHE_KIB = 128
_NONCE_BYTES = 16
# What of SQLite's errors is the machine's.
_NUMBERS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_CANTOPEN: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EROFS,
}
_PROBE_BYTES = 2**20
# What reading a damaged file raises: SQLite, values of other types than were written, no JSON.
_NONSENSE = (sqlite3.Error, IntegrityError, TypeError, ValueError, OverflowError)


@contextmanager
def new_index(path: Path) -> Iterator[sqlite3.Connection]:
    """A new index file, which is whole and on disk when the block ends without an error.

    Raises `OSError` where the machine cannot write it.
    """
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            file.execute(f"pragma page_size = {_PAGE_BYTES}")
            # Nobody goes on with the unfinished file of a process that died: nothing to undo.
            file.execute("pragma journal_mode = off")
            file.execute("pragma synchronous = off")
            file.execute("begin")
            file.execute(
                "create table facts (name text primary key, crc integer not null, "
                "body blob not null) without rowid"
            )
            # Equal rows make another file each time: a sweep never takes a new one for an old one.
            write_fact(file, "nonce", os.urandom(_NONCE_BYTES))
            yield file
            file.execute("commit")
    except sqlite3.OperationalError as error:
        raise _machine_error(path, error) from error
    sync_file(path)


def _machine_error(path: Path, error: sqlite3.OperationalError) -> Exception:
    """What the system says, which SQLite does not tell; the error itself if it is another one."""
    number = _NUMBERS.get(error.sqlite_errorcode & 0xFF)
    if number is None:
        return error
    try:
        with path.open("ab") as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as reason:
        return OSError(reason.errno, reason.strerror, str(path))
    return OSError(number, os.strerror(number), str(path))


def open_index(path: Path) -> sqlite3.Connection:
    """Open an index file. Raises `sqlite3.Error` where it is not there."""
    place = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    # One thread at a time uses it, not always the same.
    file = sqlite3.connect(place, uri=True, isolation_level=None, check_same_thread=False)
    file.execute(f"pragma cache_size = -{_CACHE_KIB}")
    return file


def write_fact(file: sqlite3.Connection, name: str, body: bytes) -> None:
    """Write bytes under a name."""
    file.execute("insert into facts values (?, ?, ?)", (name, isal_zlib.crc32(body), body))


def read_fact(file: sqlite3.Connection, name: str) -> bytes:
    """The bytes of a name. Raises `IntegrityError` where they are damaged or not there."""
    row = file.execute("select crc, body from facts where name = ?", [name]).fetchone()
    if row is None or isal_zlib.crc32(row[1]) != row[0]:
        raise IntegrityError(f"the fact {name} of an index file is damaged")
    body: bytes = row[1]
    return body


class IndexConnections:
    """The open connections of a process, lent to one thread at a time; safe to use from many."""

    def __init__(self, most: int = MOST_OPEN, filter_bytes: int = MOST_FILTER_BYTES) -> None:
        """At most `most` of those that nobody uses stay open, those that were used last.

        `filter_bytes` is what the filters of all files take in memory at the most.
        """
        self._filter_bytes = filter_bytes
        self._most = most
        self._lock = Lock()
        self._idle: OrderedDict[Path, list[sqlite3.Connection]] = OrderedDict()
        self._count = 0

    def take(self, path: Path) -> sqlite3.Connection:
        """A connection to a file. Raises `sqlite3.Error` where it cannot be opened."""
        with self._lock:
            idle = self._idle.get(path)
            if idle:
                self._count -= 1
                return idle.pop()
        return open_index(path)

    def give(self, path: Path, connection: sqlite3.Connection) -> None:
        """Give back what was taken."""
        with self._lock:
            self._idle.setdefault(path, []).append(connection)
            self._idle.move_to_end(path)
            self._count += 1
            while self._count > self._most:
                self._close_oldest()

    def _close_oldest(self) -> None:
        path, idle = next(iter(self._idle.items()))
        if idle:
            idle.pop().close()
            self._count -= 1
        else:
            del self._idle[path]

    @contextmanager
    def passing(self, files: int) -> Iterator[None]:
        """In this block so many files are asked, one after the other.

        Where not all of them could stay open, only the last one does: the others would be closed
        before they are asked again, and memory takes more time than to open a file.
        """
        most = self._most
        self._most = most if files <= most else 1
        try:
            yield
        finally:
            self._most = most

    def close(self, path: Path) -> None:
        """Close those of a file that nobody uses."""
        with self._lock:
            for connection in self._idle.pop(path, ()):
                connection.close()
                self._count -= 1

    def keep(self, paths: Collection[Path] = ()) -> None:
        """Close those of all other files that nobody uses."""
        with self._lock:
            others = [path for path in self._idle if path not in paths]
        for path in others:
            self.close(path)

    def reserve(self, filter_bytes: int) -> bool:
        """Whether there is room for a filter, which is then taken; fewer than 0 give it back.

        None takes more than a part of what is left: a few large files leave room for many small
        ones, without whose filters hundreds would be asked.
        """
        with self._lock:
            is_room = _LARGEST_FILTER * filter_bytes <= self._filter_bytes
            self._filter_bytes -= filter_bytes if is_room else 0
            return is_room


class IndexFile:
    """An index file that servers ask. Reading raises `UnreadableFilesError` where it fails."""

    def __init__(self, path: Path, connections: IndexConnections) -> None:
        self.path = path
        self._connections = connections
        self._filters: dict[str, KeyFilter] = {}

    @cached_property
    def tables(self) -> Mapping[str, Any]:
        """The tables whose rows it has, with what is known of them."""
        tables: dict[str, Any] = orjson.loads(self.fact(TABLES))
        return tables

    def pages(
        self, table: PageTable, low: Key, high: Key = (), *, descending: bool = False
    ) -> Generator[list[list[Any]], None, None]:
        """See `key_pages.read_pages`.

        A connection is in use until the pages are at their end, or closed.
        """
        with self._reading() as file:
            yield from read_pages(file, table, _known(low), _known(high), descending=descending)

    def rows(
        self, table: PageTable, value: str, place: int, most: int = sys.maxsize
    ) -> list[tuple[Any, ...]]:
        """The rows whose key begins with a text, which is at a place in them, ascending.

        Or more than `most` of them.
        """
        rows: list[tuple[Any, ...]] = []
        # Descending, as the page to begin with is then found by one statement.
        with closing(self.pages(table, (value,), (value,), descending=True)) as pages:
            for page in pages:
                rows[:0] = (tuple(row) for row in page if row[place] == value)
                if len(rows) > most:
                    break
        return rows

    def may_have(self, table: PageTable, value: str) -> bool:
        """Whether pages of a table may have rows whose key begins with a text, told from memory."""
        key_filter = self._filters.get(table.name)
        if key_filter is None:
            bits = self.fact(filter_fact(table))
            read = KeyFilter(bits if self._connections.reserve(len(bits)) else b"")
            key_filter = self._filters.setdefault(table.name, read)
            if key_filter is not read:  # another thread was faster
                self._connections.reserve(-len(read.bits))
        return key_filter.may_have(value)

    def fact(self, name: str) -> bytes:
        """The bytes of a name."""
        with self._reading() as file:
            return read_fact(file, name)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        connection: sqlite3.Connection | None = None
        try:
            connection = self._connections.take(self.path)
            yield connection
        except _NONSENSE as error:
            raise UnreadableFilesError([self.path]) from error
        finally:
            if connection is not None:
                self._connections.give(self.path, connection)

    def close(self) -> None:
        """Close the connections that nobody uses and forget filters; who asks again begins anew."""
        self._connections.close(self.path)
        while self._filters:
            _, key_filter = self._filters.popitem()
            self._connections.reserve(-len(key_filter.bits))


def filter_fact(table: PageTable) -> str:
    """The name of the fact that is the filter of a page table's keys; see `key_filter`."""
    return f"{table.name}.filter"


def _known(key: Key) -> Key:
    """A key as SQLite can be asked for it: a lone surrogate is in no text."""
    return tuple(
        value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for value in key
    )
