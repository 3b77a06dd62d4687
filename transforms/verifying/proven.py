"""What the unfinished part of a check has proven, so that it goes on where it was interrupted.

A small SQLite database in this machine's cache. What was proven counts only for the same bytes
(the version that the file system or the store gives them), held against the same record, and for a
limited time. It may be deleted at any time; a check that comes to its end empties it.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

EXPIRES_SECONDS = 30 * 24 * 3600.0
"""After which something counts as not proven."""

_COMMIT_SECONDS = 1.0
_FORMAT = 1
_TABLE = """
    create table if not exists proven (
        place text primary key,
        state text not null,
        recorded text not null,
        time real not null
    ) without rowid
"""


class Proven:
    """The record in the file `path`, for the threads of a process; without one, in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._con = _opened(path)
        self._saved = time.monotonic()

    def has(self, place: str, state: str, recorded: str) -> bool:
        """Whether what is at `place`, in this state, was proven against what is recorded of it."""
        asked = "select 1 from proven where place = ? and state = ? and recorded = ? and time > ?"
        oldest = time.time() - EXPIRES_SECONDS
        return bool(self._run(lambda con: con.execute(asked, [place, state, recorded, oldest])))

    def keep(self, place: str, state: str, recorded: str) -> None:
        """Remember that; an empty state identifies nothing, and is not kept."""
        if not state:
            return
        insert = "insert or replace into proven values (?, ?, ?, ?)"
        self._run(lambda con: con.execute(insert, [place, state, recorded, time.time()]))
        if time.monotonic() - self._saved > _COMMIT_SECONDS:
            self.save()

    def clear(self) -> None:
        """Forget everything."""
        self._run(lambda con: con.execute("delete from proven"))
        self.save()

    def save(self) -> None:
        """Let it survive the process; happens by itself now and then."""
        with self._lock, suppress(sqlite3.Error):
            self._con.commit()
            self._saved = time.monotonic()

    def close(self) -> None:
        """Save and close."""
        self.save()
        self._con.close()

    def _run(self, work: Callable[[sqlite3.Connection], sqlite3.Cursor]) -> list[Any]:
        """Work on the file, or in memory from the first time on that the file fails."""
        with self._lock:
            try:
                return work(self._con).fetchall()
            except sqlite3.Error:
                self._con.close()
                self._con = _connect(None)
                return work(self._con).fetchall()


def _opened(path: Path | None) -> sqlite3.Connection:
    try:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        return _connect(path)
    except (OSError, sqlite3.OperationalError):
        return _connect(None)
    except sqlite3.DatabaseError:  # no database any more: what was in it is proven once more
        assert path is not None
        for ending in ("", "-wal", "-shm"):
            path.with_name(f"{path.name}{ending}").unlink(missing_ok=True)
        return _connect(path)


def _connect(path: Path | None) -> sqlite3.Connection:
    con = sqlite3.connect(path or ":memory:", timeout=10.0, check_same_thread=False)
    try:
        con.execute("pragma journal_mode = wal").fetchall()
        con.execute("pragma synchronous = normal")
        ((version,),) = con.execute("pragma user_version").fetchall()
        if version != _FORMAT:
            con.execute("drop table if exists proven")
            con.execute(f"pragma user_version = {_FORMAT}")
        con.execute(_TABLE)
        con.commit()
    except BaseException:
        con.close()
        raise
    return con
