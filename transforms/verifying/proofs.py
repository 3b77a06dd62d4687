"""What was found intact, on record for every process of a machine.

Splicing copies bytes and would not notice that one has flipped, so each ZIP is read through once
against its recorded hash. That is not done again while its file is the same (size, time, inode; in
a bucket the ETag), whichever command, run or server asks. A check goes on where it was interrupted
by what it has proven; when it comes to its end it forgets that, and it reads everything next time.
A quick check remembers what a sound one read (`transforms.verifying.sound_parts`).
The record is a small SQLite database; it may be deleted at any time, and then everything is read
once more.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from transforms.errors import BusyError
from transforms.scratch import exclusive

_Result = TypeVar("_Result")

_WAIT_SECONDS = 10.0
_EXPIRES_SECONDS = 30 * 24 * 3600.0
_TABLE = """
    create table if not exists proofs (
        purpose text,
        place text,
        state text not null,
        recorded text not null,
        digest text not null,
        time real not null,
        primary key (purpose, place)
    ) without rowid
"""


@dataclass(frozen=True, slots=True)
class Proof:
    """That a file or an object was read and is as recorded.

    `place` is its address, `state` the version that the file system or the store gave it (empty:
    none), `recorded` the hash that it was held against (of a ZIP, or of the CSV in it), `digest`
    what its own bytes hash to, where somebody wants to know it: a SHA-256, or of each block of an
    object the CRC-32 (`exporters.zips.sources.CheckedSource`). `time` is when it was kept, in Unix
    seconds; 0 where nobody asked.
    """

    place: str
    state: str
    recorded: str
    digest: str = ""
    time: float = field(default=0.0, compare=False)


class Proofs:
    """The proofs in the file `path`, for any number of threads and processes.

    Where there is none, or it cannot be written, proofs last as long as the process. Those of one
    `purpose` are known to that one alone, and for 30 days; without one they do not expire.
    """

    def __init__(self, path: Path | None = None, purpose: str = "") -> None:
        self._path = path
        self._purpose = purpose
        self._lock = threading.Lock()
        self._con: sqlite3.Connection | None = None

    def find(self, place: str, state: str, recorded: str) -> Proof | None:
        """The proof of a place in this very state against this recorded hash, if there is one."""
        query = "select state, recorded, digest from proofs where (purpose, place) = (?, ?)"
        rows = self._run(f"{query} and time > ?", self._purpose, place, self._oldest())
        return Proof(place, *rows[0]) if rows and rows[0][:2] == (state, recorded) else None

    def by_place(self) -> Mapping[str, Proof]:
        """All proofs of this purpose, by place."""
        query = "select place, state, recorded, digest, time from proofs where purpose = ?"
        rows = self._run(f"{query} and time > ?", self._purpose, self._oldest())
        return {row[0]: Proof(*row) for row in rows}

    def keep(self, *proofs: Proof) -> None:
        """Remember proofs in the place of earlier ones; an empty state identifies nothing."""
        now = time.time()
        self._write(
            (self._purpose, proof.place, proof.state, proof.recorded, proof.digest, now)
            for proof in proofs
            if proof.state
        )

    def clear(self) -> None:
        """Forget everything of this purpose."""
        self._run("delete from proofs where purpose = ?", self._purpose)

    def close(self) -> None:
        """Close the file; it is opened again when somebody asks."""
        with self._lock:
            if self._con is not None:
                self._con.close()
            self._con = None

    def __del__(self) -> None:
        self.close()

    def _oldest(self) -> float:
        """From when on proofs count, in Unix seconds."""
        return time.time() - _EXPIRES_SECONDS if self._purpose else 0.0

    def _run(self, statement: str, *values: str | float) -> list[tuple[Any, ...]]:
        return self._asked(lambda con: con.execute(statement, values).fetchall())

    def _write(self, rows: Iterable[tuple[str | float, ...]]) -> None:
        insert, values = "insert or replace into proofs values (?, ?, ?, ?, ?, ?)", list(rows)
        self._asked(lambda con: con.executemany(insert, values))

    def _asked(self, ask: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Ask the file, or from the first time on that it fails memory."""
        with self._lock:
            try:
                with self._opened() as con:
                    return ask(con)
            except sqlite3.Error:
                self._con = _connect(None)
                with self._con as con:
                    return ask(con)

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
        with con:
            con.execute(_TABLE)
    except BaseException:
        con.close()
        raise
    return con
