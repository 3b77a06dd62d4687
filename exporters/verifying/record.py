"""What a check sees, in an SQLite file: once it is sound, the next quick check compares with it.

A large archive has millions of objects, so their names are on disk. Those that are accounted for
are named; what is not named in the end is a stranger.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from transforms.files import commit_file
from transforms.objects import ObjectInfo
from transforms.scratch import scratch_folder
from transforms.stores.store import Store

_NEW, _NAMED, _AS_BEFORE = range(3)
"""How an object stands; one that the last sound check saw the same is accounted for."""

_TABLES = (
    "create table if not exists {}.facts (fact text primary key) without rowid",
    "create table if not exists {}.objects "
    "(key text primary key, size, version, modified, standing) without rowid",
)
_COMPARE = """
    update objects set standing = ? where exists (
        select 1 from before.objects as old
        where old.key = objects.key and old.size = objects.size and old.version = objects.version
    )
"""
_CHANGED = """
    select key from objects where standing = ?
    union all
    select key from before.objects as old
    where not exists (select 1 from objects where objects.key = old.key)
"""
_FIND = "select key, size, version, modified from objects where "


@contextmanager
def new_record(
    scratch: Path | None, kept: Path | None = None, about: str = "", *, relies: bool
) -> Iterator[Record]:
    """A record for one check, below `scratch`, which ends with the block unless it is kept.

    `kept` is the file that the next check finds, if there may be one. With `relies`, what is in it
    from a check `about` the very same counts as seen before. That there is no room on the disk is
    an error of the machine.
    """
    with scratch_folder(scratch) as folder:
        path = folder / "record.sqlite"
        try:
            with closing(sqlite3.connect(path)) as con:
                con.execute("pragma main.journal_mode = off").fetchall()
                con.execute("pragma main.synchronous = off")
                is_there = relies and kept is not None and _is_sound(kept, about)
                con.execute("attach ? as before", [str(kept) if is_there else ":memory:"])
                for table in _TABLES:
                    con.execute(table.format("main"))
                    con.execute(table.format("before"))
                con.execute("insert into facts values (?)", [about])
                yield Record(con, path, kept)
        except sqlite3.OperationalError as error:
            # It says that there is no room, or that a write failed, and never where.
            number = errno.ENOSPC if "full" in str(error) else errno.EIO
            what = f"{os.strerror(number)} ({error})"
            raise OSError(number, what, str(path)) from error


class Record:
    """What one check sees of a site; see `new_record`."""

    def __init__(self, con: sqlite3.Connection, path: Path, kept: Path | None) -> None:
        self._con, self._path, self._kept = con, path, kept

    def facts(self) -> frozenset[str]:
        """What the last sound check found besides objects."""
        return frozenset(fact for (fact,) in self._con.execute("select fact from before.facts"))

    def take_listing(self, store: Store) -> None:
        """Note all objects of a store. Raises `ConfigError` where there is no such place."""
        self._store, self.time = store, store.now()
        listed = ((i.key, i.size, i.version, i.modified, _NEW) for i in store.list())
        self._con.executemany("insert or replace into objects values (?, ?, ?, ?, ?)", listed)
        self._con.execute(_COMPARE, [_AS_BEFORE])

    def changed(self) -> Iterator[str]:
        """The keys of what is new, other or gone since the last sound check."""
        return (key for (key,) in self._con.execute(_CHANGED, [_NEW]))

    def is_as_before(self, key: str) -> bool:
        """Whether the last sound check saw an object the same, and nothing named it yet."""
        query = "select 1 from objects where key = ? and standing = ?"
        return any(self._con.execute(query, [key, _AS_BEFORE]))

    def find(self, key: str) -> ObjectInfo | None:
        """An object as listed; a listing is not believed, what it lacks is asked for by name."""
        return next(self._infos("key = ?", key), None) or self._store.head(key)

    def count(self, first: str, ending: str = "") -> tuple[int, int]:
        """How many keys begin and end so, and how many bytes they have."""
        query = (
            "select count(*), coalesce(sum(size), 0) from objects "
            "where key >= ? and key < ? and key glob '*' || ?"
        )
        ((count, size),) = self._con.execute(query, [*_beginning(first), ending])
        return count, size

    def strangers(self) -> Iterator[ObjectInfo]:
        """The objects that nothing names, by key."""
        return self._infos("standing = ? order by key", _NEW)

    def _infos(self, condition: str, *values: object) -> Iterator[ObjectInfo]:
        return (ObjectInfo(*row) for row in self._con.execute(_FIND + condition, values))

    def name(self, keys: Iterable[str]) -> None:
        """These are accounted for."""
        update = "update objects set standing = ? where key = ?"
        self._con.executemany(update, ((_NAMED, key) for key in keys))

    def name_all(self, first: str) -> None:
        """All whose keys begin so are accounted for."""
        update = "update objects set standing = ? where key >= ? and key < ?"
        self._con.execute(update, [_NAMED, *_beginning(first)])

    def keep(self, facts: Iterable[str]) -> None:
        """Let the next quick check rely on what this one saw: nothing is wrong.

        What nothing names yet is left out: a later check must look at it.
        """
        if self._kept is not None:
            self._con.execute("delete from objects where standing = ?", [_NEW])
            self._con.executemany("insert into facts values (?)", ((fact,) for fact in facts))
            self._con.commit()
            self._con.close()
            commit_file(self._path, self._kept)


def _beginning(first: str) -> tuple[str, str]:
    return first, f"{first}\U0010ffff"


def _is_sound(path: Path, about: str) -> bool:
    """Whether a file is a whole record of a check `about` the same."""
    if path.is_file():
        with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as con:
            is_same = con.execute("select 1 from facts where fact = ?", [about]).fetchall() != []
            return is_same and con.execute("pragma quick_check").fetchall() == [("ok",)]
    return False
