"""Reading for servers: one DuckDB per process that attaches the warehouse's files read-only.

The files never change, so one that two catalog snapshots name stays attached, its pages warm and
its statements prepared. A file is attached when a statement first names it, at 0.8 MB of memory and
a thousandth of a second. Nothing here knows what the files hold.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Lock, Timer, get_ident
from typing import Any

import duckdb

from transforms.duck import Connection, plain_errors, quote_name, quote_text, working_connection
from transforms.errors import StrataError, UnreadableFilesError
from transforms.memory import MEMORY_LIMIT

Row = tuple[Any, ...]
_MAX_PREPARED = 200
_AGAIN_SECONDS = 0.02
_ALIAS = re.compile(r"\bf\d+(?=\.)")
_PARQUET = re.compile(r"'((?:[^']|'')+\.parquet)'")


@dataclass(frozen=True, slots=True)
class Time:
    """A bound value that is compared with a TIMESTAMPTZ column: microseconds since 1970, UTC."""

    micros: int


Value = str | int | bool | Time


class InterruptedQueryError(StrataError):
    """A query was stopped by `Session.interrupt`, for its time limit or because nobody waits."""


@dataclass(slots=True)
class _File:
    """A file that may be asked: `users` count who may name it.

    It is open from the beginning and attached, under its alias, when a statement names it.
    """

    path: Path
    alias: str
    descriptor: int
    users: int = 0
    attached: bool = False


class SessionPool:
    """The files and the sessions over them. Safe to use from many threads."""

    def __init__(
        self, scratch: Path, *, threads: int = 1, memory_limit: str = MEMORY_LIMIT
    ) -> None:
        """Open an empty DuckDB; what does not fit into `memory_limit` is spilled below `scratch`.

        `threads` is DuckDB's own: one is best for look-ups, which are bound by planning.
        """
        self._closing = ExitStack()
        self._con = self._closing.enter_context(
            working_connection(scratch, threads=threads, memory_limit=memory_limit)
        )
        # DuckDB 2.0.0 fails, for good, on a page of rows that are found by their numbers.
        off = "compressed_materialization,late_materialization"
        self._con.execute(f"set global disabled_optimizers = '{off}'")
        self._lock = Lock()
        self._numbers = count()
        self._files: dict[Path, _File] = {}
        self._files_by_alias: dict[str, _File] = {}
        self._idle: list[Session] = []
        self._lent = 0
        self._closed = False

    def attach(self, path: Path) -> str:
        """Let statements name a file, or count one more user of it; returns the alias to use.

        The file may be removed afterwards: it stays open. Raises `FileNotFoundError` where it is
        not there. One that took another's place has an alias of its own.
        """
        with self._lock:
            file = self._files.get(path)
            if file is None or not _is_there(file):
                descriptor = os.open(path, os.O_RDONLY)
                file = _File(path, f"f{next(self._numbers)}", descriptor)
                self._files[path] = self._files_by_alias[file.alias] = file
            file.users += 1
            return file.alias

    def release(self, alias: str) -> None:
        """Count one user less, and let go of the file after the last one."""
        with self._lock:
            if self._closed and alias not in self._files_by_alias:
                return
            file = self._files_by_alias[alias]
            file.users -= 1
            if not file.users:
                del self._files_by_alias[alias]
                if self._files.get(file.path) is file:
                    del self._files[file.path]
                os.close(file.descriptor)
                if not self._closed:
                    self._detach(file)

    @property
    def attached(self) -> int:
        """How many files are attached."""
        return sum(file.attached for file in self._files_by_alias.values())

    def attached_files(self, aliases: Iterable[str]) -> list[_File]:
        """The files that a statement names, attached for it unless they are already."""
        with self._lock:
            files = [file for alias in aliases if (file := self._files_by_alias.get(alias))]
            for file in files:
                if not file.attached:
                    self._attach(file)
        return files

    def _attach(self, file: _File) -> None:
        path = file.path if _is_there(file) else Path(f"/dev/fd/{file.descriptor}")
        with _unreadable([file.path]), plain_errors():
            self._con.execute(f"attach {quote_text(path)} as {quote_name(file.alias)} (read_only)")
        file.attached = True

    def _detach(self, file: _File) -> None:
        if file.attached:
            self._con.execute(f"detach {quote_name(file.alias)}")
            file.attached = False

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Lend a connection to a thread; afterwards it waits, statements prepared, for the next.

        The one returned last is lent first, so that few are warm instead of many lukewarm. It is
        the thread's until that gives it back: any other, which could give back what still works,
        gets a `RuntimeError`.
        """
        with self._lock:
            session = self._idle.pop() if self._idle else Session(self._con.cursor(), self)
            self._lent += 1
        session.begin()
        try:
            yield session
        finally:
            session.end()
            with self._lock:
                self._lent -= 1
                self._idle.append(session)
            self._close_unused()

    def close(self) -> None:
        """Let go of everything once the sessions that are still lent have come back."""
        self._closed = True
        self._close_unused()

    def _close_unused(self) -> None:
        with self._lock:
            # Closing the first connection closes those of all sessions.
            if self._closed and not self._lent:
                self._closing.close()
                for file in self._files_by_alias.values():
                    os.close(file.descriptor)
                self._files.clear()
                self._files_by_alias.clear()


class Session:
    """One connection, used by the thread that has it; only `interrupt` may come from another."""

    def __init__(self, con: Connection, pool: SessionPool) -> None:
        self._con = con
        self._pool = pool
        self._prepared: dict[str, str] = {}
        self._numbers = count()
        self._stopping = Lock()
        self._interrupted = False
        self._again: Timer | None = None
        self._thread: int | None = None

    def begin(self) -> None:
        """Belong to this thread."""
        self._thread = get_ident()

    def end(self) -> None:
        """Belong to no thread, and be ready for the next."""
        self._check_thread()
        with self._stopping:
            self._thread = None
            self._interrupted = False
            if self._again is not None:
                self._again.cancel()
                self._again = None

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Run a statement with `$1`, `$2`, ... bound and return all rows.

        One with values is prepared on its first use, as planning is most of a small query; one
        without is not, since it is not asked again. Raises `InterruptedQueryError`, and
        `UnreadableFilesError` where DuckDB fails.
        """
        with self._running(sql, values):
            return self._con.fetchall()

    def check_interrupt(self) -> None:
        """Raise `InterruptedQueryError` after `interrupt`."""
        if self._interrupted:
            raise InterruptedQueryError("the query was interrupted before it began")

    def interrupt(self) -> None:
        """Stop what runs, from any thread, and refuse to run more until the session comes back."""
        with self._stopping:
            self._interrupted = self._thread is not None
        self._interrupt_again()

    def _interrupt_again(self) -> None:
        """Until the user is gone: a statement that just begins forgets an interrupt."""
        with self._stopping:
            if self._interrupted:
                self._con.interrupt()
                self._again = Timer(_AGAIN_SECONDS, self._interrupt_again)
                self._again.daemon = True
                self._again.start()

    def _check_thread(self) -> None:
        if self._thread != get_ident():
            raise RuntimeError("a session is used, and given back, by the thread that took it")

    @contextmanager
    def _running(self, sql: str, values: Sequence[Value]) -> Iterator[None]:
        self._check_thread()
        files = self._pool.attached_files(_ALIAS.findall(sql))
        try:
            with _unreadable(_paths(files, sql)), plain_errors():
                if values:
                    name = self._prepared.get(sql) or self._prepare(sql)
                    sql = f"execute {name}({', '.join(map(_literal, values))})"
                self.check_interrupt()
                self._con.execute(sql)
                yield
        except duckdb.InterruptException as error:
            raise InterruptedQueryError("the query was interrupted") from error

    def _prepare(self, sql: str) -> str:
        if len(self._prepared) >= _MAX_PREPARED:
            oldest = next(iter(self._prepared))
            # A statement over a file that was let go is gone already.
            with suppress(duckdb.Error):
                self._con.execute(f"deallocate {self._prepared[oldest]}")
            del self._prepared[oldest]
        name = f"s{next(self._numbers)}"
        self._con.execute(f"prepare {name} as {sql}")
        self._prepared[sql] = name
        return name


@contextmanager
def _unreadable(paths: Sequence[Path]) -> Iterator[None]:
    """Raise `UnreadableFilesError` where DuckDB fails; an interrupt passes."""
    try:
        yield
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        if not paths:
            raise
        raise UnreadableFilesError(paths) from error


def _paths(files: Iterable[_File], sql: str) -> list[Path]:
    """The files that a statement reads: attached ones, and Parquet files that it names."""
    named = (match.replace("''", "'") for match in _PARQUET.findall(sql))
    return [*(file.path for file in files), *map(Path, named)]


def _literal(value: Value) -> str:
    """SQL for a bound value: the one place where a request's values meet SQL."""
    if isinstance(value, str):
        # A lone surrogate is in no column; DuckDB could not even read it.
        return quote_text(value.encode("utf-8", "replace").decode())
    if isinstance(value, Time):
        return f"make_timestamptz({value.micros})"
    return str(value).lower()


def _is_there(file: _File) -> bool:
    """Whether its path still leads to the file that is open."""
    with suppress(OSError):
        return os.path.samestat(file.path.stat(), os.fstat(file.descriptor))
    return False
