"""Reading for servers: one DuckDB per process, with a connection for each thread.

It attaches the DuckDB files of a warehouse, of which a snapshot names a few. Nothing here knows
what the files hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from threading import Lock, Timer
from typing import Any

import duckdb

from transforms.duck import Connection, plain_errors, quote_text, working_connection
from transforms.errors import StrataError, UnreadableFilesError
from transforms.memory import MEMORY_LIMIT

Row = tuple[Any, ...]
_AGAIN_SECONDS = 0.02
_ALIAS = re.compile(r"\bf\d+(?=\.)")
_PARQUET = re.compile(r"'((?:[^']|'')+\.parquet)'")


Value = str | int


class InterruptedQueryError(StrataError):
    """A query was stopped by `Session.interrupt`, for its time limit or because nobody waits."""


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
        self._attached: dict[str, Path] = {}
        self._idle: list[Session] = []
        self._lent = 0
        self._closed = False

    def attach(self, path: Path) -> str:
        """Attach a file, which may be removed afterwards; returns its alias for statements.

        Raises `FileNotFoundError` where it is not there, `UnreadableFilesError`.
        """
        path.stat()
        with self._lock:
            alias = f"f{next(self._numbers)}"
            try:
                with plain_errors():
                    self._con.execute(f"attach {quote_text(path)} as {alias} (read_only)")
            except duckdb.Error as error:
                raise UnreadableFilesError([path]) from error
            self._attached[alias] = path
            return alias

    def detach(self, alias: str) -> None:
        """Let go of an attached file."""
        with self._lock:
            if self._attached.pop(alias, None):
                self._con.execute(f"detach {alias}")

    def paths(self, sql: str) -> list[Path]:
        """The files that a statement reads: attached ones, and Parquet files that it names."""
        aliases = map(self._attached.get, _ALIAS.findall(sql))
        named = (match.replace("''", "'") for match in _PARQUET.findall(sql))
        return [*filter(None, aliases), *map(Path, named)]

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Lend a connection to a thread; afterwards it waits for the next."""
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
                self._attached.clear()


class Session:
    """One connection, used by the thread that has it; only `interrupt` may come from another."""

    def __init__(self, con: Connection, pool: SessionPool) -> None:
        self._con = con
        self._pool = pool
        self._stopping = Lock()
        self._interrupted = False
        self._again: Timer | None = None
        self._is_lent = False

    def begin(self) -> None:
        """Be lent to a thread."""
        self._is_lent = True

    def end(self) -> None:
        """Be nobody's, and ready for the next."""
        with self._stopping:
            self._is_lent = self._interrupted = False
            if self._again is not None:
                self._again.cancel()
                self._again = None

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Run a statement with `$1`, `$2`, ... bound and return all rows.

        Raises `InterruptedQueryError`, and `UnreadableFilesError` where DuckDB fails.
        """
        try:
            with plain_errors():
                self.check_interrupt()
                return self._con.execute(sql, [*map(_bound, values)]).fetchall()
        except duckdb.InterruptException as error:
            raise InterruptedQueryError("the query was interrupted") from error
        except duckdb.Error as error:
            if paths := self._pool.paths(sql):
                raise UnreadableFilesError(paths) from error
            raise

    def check_interrupt(self) -> None:
        """Raise `InterruptedQueryError` after `interrupt`."""
        if self._interrupted:
            raise InterruptedQueryError("the query was interrupted before it began")

    def interrupt(self) -> None:
        """Stop what runs, from any thread, and refuse to run more until the session comes back."""
        with self._stopping:
            self._interrupted = self._is_lent
        self._interrupt_again()

    def _interrupt_again(self) -> None:
        """Until the user is gone: a statement that just begins forgets an interrupt."""
        with self._stopping:
            if self._interrupted:
                self._con.interrupt()
                self._again = Timer(_AGAIN_SECONDS, self._interrupt_again)
                self._again.daemon = True
                self._again.start()


def _bound(value: Value) -> Value:
    """A value as DuckDB takes it: a lone surrogate is in no column, nor could it be read."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
