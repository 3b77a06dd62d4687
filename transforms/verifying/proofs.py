"""What was found intact, on record for every process of a machine.

A ZIP or a data file is read through once against its recorded hash. That is not done again while it
is the same (size, time, inode; in a bucket the ETag), whichever command, run or server asks.
The record is a small SQLite database; it may be deleted at any time, and then everything is read
once more.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from transforms.errors import BusyError
from transforms.scratch import exclusive

_Result = TypeVar("_Result")

_WAIT_SECONDS = 10.0
_TABLE = """
    create table if not exists proven (
        place text primary key, state text not null, recorded text not null, digest text not null
    ) without rowid
"""
_FIND = "select * from proven where place in (select value from json_each(?))"


@dataclass(frozen=True, slots=True)
class Proof:
    """That a file or an object was read and is as recorded.

    `place` is its address, `state` the version that the file system or the store gave it (empty:
    none), `recorded` the hash that it was held against (of a ZIP, or of the CSV in it), `digest`
    the CRC-32 of each of its blocks (`exporters.exports.proven_source`). The SHA-256 of a local
    part follows them.
    """

    place: str
    state: str
    recorded: str
    digest: str = ""


class Proofs:
    """The proofs in the file `path`, for any number of threads and processes.

    Where there is none, or it cannot be written, new proofs last as long as the process.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._con: sqlite3.Connection | None = None
        self._kept: Path | None = None

    def find(self, place: str, state: str, recorded: str) -> Proof | None:
        """The proof of a place in this very state against this recorded hash, if there is one."""
        (proof,) = self.find_each([Proof(place, state, recorded)])
        return proof

    def find_each(self, asked: Sequence[Proof]) -> list[Proof | None]:
        """The proofs of places, each in its very state against its recorded hash, or None."""
        places = json.dumps([proof.place for proof in asked])
        rows = self._run(lambda con: con.execute(_FIND, [places]).fetchall())
        proofs = {row[:3]: Proof(*row) for row in rows}
        return [proofs.get((proof.place, proof.state, proof.recorded)) for proof in asked]

    def keep(self, *proofs: Proof) -> None:
        """Remember proofs in the place of earlier ones; an empty state identifies nothing."""
        rows = [(p.place, p.state, p.recorded, p.digest) for p in proofs if p.state]
        if rows:
            insert = "insert or replace into proven values (?, ?, ?, ?)"
            self._run(lambda con: con.executemany(insert, rows))

    def forget(self, place: str) -> None:
        """Remove the proof of a place, if there is one."""
        self._run(lambda con: con.execute("delete from proven where place = ?", [place]))

    def close(self) -> None:
        """Close the file; it is opened again when somebody asks."""
        with self._lock:
            if self._con is not None:
                self._con.close()
            self._con = None

    def __del__(self) -> None:
        self.close()

    def _run(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Work with the file, with a new one if it is damaged, or with memory if it fails."""
        with self._lock:
            while True:
                try:
                    self._con = self._con or _connect(self._path, self._kept)
                    with self._con as con:
                        return work(con)
                except (OSError, BusyError, sqlite3.Error) as error:
                    if self._path is None:
                        raise
                    if self._con is not None:
                        self._con.close()
                    self._con = None
                    is_damage = type(error) is sqlite3.DatabaseError
                    if not (is_damage and _is_removed(self._path)):
                        self._path, self._kept = None, self._path


def _is_removed(path: Path) -> bool:
    """Remove a damaged file, if that can be done: what was in it was only sooner known."""
    with suppress(OSError, BusyError), _alone(path):
        for ending in ("", "-wal", "-shm"):
            path.with_name(f"{path.name}{ending}").unlink(missing_ok=True)
        return True
    return False


def _alone(path: Path) -> AbstractContextManager[None]:
    """Who makes the file, or finds it damaged, must not meet another one."""
    return exclusive(path.with_suffix(".lock"), wait_seconds=_WAIT_SECONDS)


def _connect(path: Path | None, kept: Path | None) -> sqlite3.Connection:
    """Open the file; without a path, memory with the proofs of a file that cannot be written."""
    with _alone(path) if path else nullcontext():
        place = path or ":memory:"
        con = sqlite3.connect(place, timeout=_WAIT_SECONDS, check_same_thread=False, uri=not path)
        try:
            con.execute("pragma journal_mode = wal")
            con.execute("pragma synchronous = normal")
            with con:
                con.execute(_TABLE)
            if kept is not None:
                with suppress(sqlite3.Error):
                    con.execute("attach ? as kept", [f"{kept.absolute().as_uri()}?immutable=1"])
                    con.execute("insert into proven select * from kept.proven")
                    con.commit()
        except BaseException:
            con.close()
            raise
        return con
