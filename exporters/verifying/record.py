"""What a check sees, in an SQLite file: once it is sound, the next quick check compares with it.

A large archive has millions of objects, so their names are on disk. Those that are accounted for
are named; what is not named in the end is a stranger.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from transforms.files import commit_file
from transforms.objects import ObjectInfo
from transforms.scratch import scratch_folder
from transforms.stores.store import Store

_NEW, _NAMED, _AS_BEFORE = range(3)
"""How an object stands; one that the last sound check saw the same is accounted for."""

_TABLES = (
    "create table {}.facts (fact text primary key) without rowid",
    "create table {}.objects (key text primary key, size, version, modified, standing) "
    "without rowid",
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


class Record:
    """What one check sees of a site.

    `kept` is the file that the next check finds, if there may be one. With `relies`, what is in it
    from a check `about` the very same counts as seen before.
    """

    def __init__(
        self, scratch: Path | None, kept: Path | None = None, about: str = "", *, relies: bool
    ) -> None:
        self._kept, self._about = kept, about
        self._stack = ExitStack()
        self._path = self._stack.enter_context(scratch_folder(scratch)) / "record.sqlite"
        try:
            with self._on_disk():
                self._con = sqlite3.connect(self._path)
                self._stack.callback(self._con.close)
                self._con.execute("pragma main.journal_mode = off").fetchall()
                self._con.execute("pragma main.synchronous = off")
                is_there = relies and kept is not None and _is_sound(kept, about)
                self._con.execute("attach ? as before", [str(kept) if is_there else ":memory:"])
                for name in ("main",) if is_there else ("main", "before"):
                    for table in _TABLES:
                        self._con.execute(table.format(name))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Forget what is not kept."""
        self._stack.close()

    @contextmanager
    def _on_disk(self) -> Iterator[None]:
        """That there is no room on the disk is an error of the machine."""
        try:
            yield
        except sqlite3.OperationalError as error:
            # It says that there is no room, or that a write failed, and never where.
            number = errno.ENOSPC if "full" in str(error) else errno.EIO
            what = f"{os.strerror(number)} ({error})"
            raise OSError(number, what, str(self._path)) from error

    def _rows(self, query: str, *values: object) -> Iterator[tuple[object, ...]]:
        with self._on_disk():
            yield from self._con.execute(query, values)

    def facts(self) -> frozenset[str]:
        """What the last sound check found besides objects."""
        return frozenset(str(fact) for (fact,) in self._rows("select fact from before.facts"))

    def take_listing(self, store: Store) -> None:
        """Note all objects of a store. Raises `ConfigError` where there is no such place."""
        self._store, self.time = store, store.now()
        listed = ((i.key, i.size, i.version, i.modified, _NEW) for i in store.list())
        with self._on_disk():
            insert = "insert or replace into objects values (?, ?, ?, ?, ?)"
            self._con.executemany(insert, listed)
            self._con.execute(_COMPARE, [_AS_BEFORE])

    def changed(self) -> Iterator[str]:
        """The keys of what is new, other or gone since the last sound check."""
        yield from (str(key) for (key,) in self._rows(_CHANGED, _NEW))

    def is_as_before(self, key: str) -> bool:
        """Whether the last sound check saw an object the same, and nothing named it yet."""
        query = "select 1 from objects where key = ? and standing = ?"
        return any(self._rows(query, key, _AS_BEFORE))

    def find(self, key: str) -> ObjectInfo | None:
        """An object as listed; a listing is not believed, what it lacks is asked for by name."""
        return next(self._infos("key = ?", key), None) or self._store.head(key)

    def count(self, first: str, ending: str = "") -> tuple[int, int]:
        """How many keys begin and end so, and how many bytes they have."""
        query = (
            "select count(*), coalesce(sum(size), 0) from objects "
            "where key >= ? and key < ? and key glob '*' || ?"
        )
        ((count, size),) = self._rows(query, *_beginning(first), ending)
        return int(str(count)), int(str(size))

    def beginning(self, first: str) -> Iterator[ObjectInfo]:
        """All objects whose keys begin so."""
        return self._infos("key >= ? and key < ? order by key", *_beginning(first))

    def strangers(self) -> Iterator[ObjectInfo]:
        """The objects that nothing names, by key."""
        return self._infos("standing = ? order by key", _NEW)

    def _infos(self, condition: str, *values: object) -> Iterator[ObjectInfo]:
        for row in self._rows(_FIND + condition, *values):
            yield ObjectInfo(*row)  # type: ignore[arg-type]

    def name(self, keys: Iterable[str]) -> None:
        """These are accounted for."""
        with self._on_disk():
            update = "update objects set standing = ? where key = ?"
            self._con.executemany(update, ((_NAMED, key) for key in keys))

    def name_all(self, first: str) -> None:
        """All whose keys begin so are accounted for."""
        with self._on_disk():
            update = "update objects set standing = ? where key >= ? and key < ?"
            self._con.execute(update, [_NAMED, *_beginning(first)])

    def keep(self, facts: Iterable[str]) -> None:
        """Let the next quick check rely on what this one saw: nothing is wrong.

        What nothing names yet is left out: a later check must look at it.
        """
        if self._kept is None:
            return
        with self._on_disk():
            self._con.execute("delete from objects where standing = ?", [_NEW])
            rows = ((fact,) for fact in {*facts, self._about})
            self._con.executemany("insert into facts values (?)", rows)
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
