"""Reading for servers: one DuckDB per process that has the warehouse's files attached read-only.

The files never change, so one that two catalog generations name stays attached, its pages warm and
its statements prepared. Nothing here knows what the files hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb

from transforms.duck import (
    MEMORY_LIMIT,
    Connection,
    plain_errors,
    quote_name,
    quote_text,
    working_connection,
)
from transforms.errors import StrataError

Row = tuple[Any, ...]
_MAX_PREPARED = 200


@dataclass(frozen=True, slots=True)
class Time:
    """A bound value that is compared with a TIMESTAMPTZ column: microseconds since 1970, UTC."""

    micros: int


Value = str | int | bool | Time


class InterruptedQueryError(StrataError):
    """A query was stopped by `Session.interrupt`, for its time limit or because nobody waits."""


class SessionPool:
    """The attached files and the sessions over them. Safe to use from many threads."""

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
        self._attached: dict[Path, tuple[str, int]] = {}
        self._idle: list[Session] = []
        self._lent = 0
        self._closed = False

    def attach(self, path: Path) -> str:
        """Attach a file, or count one more user of it; returns the name to put before a table.

        The file may be removed afterwards: it stays open. Raises `duckdb.IOException` where it is
        not there.
        """
        with self._lock:
            alias, users = self._attached.get(path, ("", 0))
            if not users:
                alias = f"f{next(self._numbers)}"
                with plain_errors():
                    self._con.execute(
                        f"attach {quote_text(path)} as {quote_name(alias)} (read_only)"
                    )
            self._attached[path] = (alias, users + 1)
            return alias

    def release(self, path: Path) -> None:
        """Count one user less, and let go of the file after the last one."""
        with self._lock:
            alias, users = self._attached[path]
            if users > 1:
                self._attached[path] = (alias, users - 1)
                return
            del self._attached[path]
            if not self._closed:
                self._con.execute(f"detach {quote_name(alias)}")

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Lend a connection of one's own; afterwards it waits, statements prepared, for the next.

        The one returned last is lent first, so that few are warm instead of many lukewarm.
        """
        with self._lock:
            session = self._idle.pop() if self._idle else Session(self._con.cursor())
            self._lent += 1
        try:
            yield session
        finally:
            session.reset()
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


class Session:
    """One connection, used by one thread at a time; only `interrupt` may come from another."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        self._prepared: dict[str, str] = {}
        self._numbers = count()
        self._interrupted = False

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Run a statement with `$1`, `$2`, ... bound and return all rows.

        One with values is prepared on its first use, as planning is most of a small query; one
        without is not, since it is not asked again. Raises `InterruptedQueryError`.
        """
        with self._running(sql, values):
            return self._con.fetchall()

    def batches(self, sql: str, values: Sequence[Value], size: int) -> Iterator[list[Row]]:
        """Run a statement like `rows`, but hand out at most `size` rows at a time."""
        with self._running(sql, values):
            while batch := self._con.fetchmany(size):
                yield batch

    def interrupt(self) -> None:
        """Stop what runs, from any thread, and refuse to run more until the session comes back."""
        self._interrupted = True
        self._con.interrupt()

    def reset(self) -> None:
        """Make the session ready for its next user."""
        self._interrupted = False

    @contextmanager
    def _running(self, sql: str, values: Sequence[Value]) -> Iterator[None]:
        try:
            if values:
                name = self._prepared.get(sql) or self._prepare(sql)
                sql = f"execute {name}({', '.join(map(_literal, values))})"
            # Checked last: an interrupt that came before the statement would be forgotten by it.
            if self._interrupted:
                raise InterruptedQueryError("the query was interrupted before it began")
            with plain_errors():
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
        with plain_errors():
            self._con.execute(f"prepare {name} as {sql}")
        self._prepared[sql] = name
        return name


def _literal(value: Value) -> str:
    """SQL for a bound value: the one place where a request's values meet SQL."""
    if isinstance(value, str):
        # A lone surrogate is in no column; DuckDB could not even read it.
        return quote_text(value.encode("utf-8", "replace").decode())
    if isinstance(value, Time):
        return f"make_timestamptz({value.micros})"
    return str(value).lower()
