"""What was found intact, on record for every process of a machine.

Splicing copies bytes and would not notice that one has flipped, so each ZIP is read through once
against its recorded hash. That is not done again while its file is the same (size, time, inode; in
a bucket the ETag), whichever command, run or server asks. The record is a small SQLite database; it
may be deleted at any time, and then everything is read once more.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from transforms.errors import BusyError
from transforms.scratch import exclusive

_FORMAT = 1
_WAIT_SECONDS = 10.0
_TABLE = """
    create table if not exists proofs (
        place text primary key,
        state text not null,
        recorded text not null,
        sha256 text not null
    ) without rowid
"""


@dataclass(frozen=True, slots=True)
class Proof:
    """That a ZIP was read and is as recorded.

    `place` is its address, `state` the version that the file system or the store gave it,
    `recorded` the hash that it was held against (of the ZIP, or of the CSV in it), `sha256` its
    own hash.
    """

    place: str
    state: str
    recorded: str
    sha256: str


class Proofs:
    """The proofs in the file `path`, for any number of threads and processes.

    Where there is none, or it cannot be written, proofs last as long as the process.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._con: sqlite3.Connection | None = None

    def find(self, place: str, state: str, recorded: str) -> Proof | None:
        """The proof of a ZIP in this very state against this recorded hash, if there is one."""
        asked = "select state, recorded, sha256 from proofs where place = ?"
        rows = self._run(lambda con: con.execute(asked, [place]).fetchall())
        return Proof(place, *rows[0]) if rows and rows[0][:2] == (state, recorded) else None

    def keep(self, proofs: Iterable[Proof]) -> None:
        """Remember proofs, each in the place of an earlier one."""
        rows = [(one.place, one.state, one.recorded, one.sha256) for one in proofs]
        insert = "insert or replace into proofs values (?, ?, ?, ?)"
        self._run(lambda con: con.executemany(insert, rows).fetchall())

    def close(self) -> None:
        """Close the file; it is opened again when somebody asks."""
        with self._lock:
            if self._con is not None:
                self._con.close()
            self._con = None

    def __del__(self) -> None:
        self.close()

    def _run(
        self, work: Callable[[sqlite3.Connection], list[tuple[str, ...]]]
    ) -> list[tuple[str, ...]]:
        """Work on the file, or in memory from the first time on that the file fails."""
        with self._lock:
            try:
                with self._opened() as con:
                    return work(con)
            except sqlite3.Error:
                self._con = _connect(None)
                with self._con as con:
                    return work(con)

    def _opened(self) -> sqlite3.Connection:
        if self._con is None:
            self._con = self._open()
        return self._con

    def _open(self) -> sqlite3.Connection:
        if self._path is None:
            return _connect(None)
        try:
            # One at a time: who makes the file, or finds it damaged, must not meet another one.
            with exclusive(self._path.with_suffix(".lock"), wait_seconds=_WAIT_SECONDS):
                return self._open_file(self._path)
        except (OSError, BusyError, sqlite3.Error):
            return _connect(None)

    def _open_file(self, path: Path) -> sqlite3.Connection:
        try:
            return _connect(path)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            # No database any more: what was in it is not needed, only sooner known.
            for ending in ("", "-wal", "-shm"):
                path.with_name(f"{path.name}{ending}").unlink(missing_ok=True)
            return _connect(path)


def _connect(path: Path | None) -> sqlite3.Connection:
    con = sqlite3.connect(path or ":memory:", timeout=_WAIT_SECONDS, check_same_thread=False)
    try:
        con.execute("pragma journal_mode = wal")
        con.execute("pragma synchronous = normal")
        with closing(con.execute("pragma user_version")) as found:
            (version,) = found.fetchone()
        with con:
            if version != _FORMAT:
                con.execute("drop table if exists proofs")
                con.execute(f"pragma user_version = {_FORMAT}")
            con.execute(_TABLE)
    except BaseException:
        con.close()
        raise
    return con
