"""The names of all objects of a store, on disk: a large archive has millions of them.

What is crossed off is accounted for; what is left in the end is a stranger.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from exporters.archive.archive import CHAINS
from exporters.archive.shards import SHARD_BLOCKS
from exporters.archive.sound_documents import HOME
from transforms.objects import ObjectInfo
from transforms.scratch import scratch_folder
from transforms.stores.store import SCRATCH, Store
from transforms.verifying.findings import Finding, Problem, Remedy, move_away
from transforms.verifying.verification import YOUNG_SECONDS

if TYPE_CHECKING:
    from hashlib import _Hash

_AT_ONCE = 10_000
_OF_SHARD = re.compile(
    r"([^/]+)/[^/]+/[^/]+-(\d{1,19})-\d{1,19}\.zip(?:\.sha256)?"
    r"|([^/]+)/index/(\d{1,19})\.(?:json|html|sha256)"
)
_TABLE = (
    "create table objects (key text primary key, size, version, modified, chain, shard) "
    "without rowid"
)
_FIND = "select key, size, version, modified from objects where "


class StoreListing:
    """What a store listed at one moment; what was accounted for is crossed off.

    Raises what listing raises: `ConfigError` where there is no such place.
    """

    def __init__(self, store: Store, scratch: Path | None) -> None:
        self._stack = ExitStack()
        self._path = self._stack.enter_context(scratch_folder(scratch)) / "objects.sqlite"
        self._store = store
        self._counts = Counter[tuple[str, int]]()
        self._hashes = defaultdict[tuple[str, int], "_Hash"](hashlib.sha256)
        self.time = store.now()
        try:
            with self._on_disk():
                self._con = sqlite3.connect(self._path)
                self._stack.callback(self._con.close)
                self._con.execute("pragma journal_mode = off").fetchall()
                self._con.execute("pragma synchronous = off")
                self._con.execute(_TABLE)
                infos = iter(store.list())
                insert = "insert or replace into objects values (?, ?, ?, ?, ?, ?)"
                while rows := [self._row(info) for info in islice(infos, _AT_ONCE)]:
                    self._con.executemany(insert, rows)
                self._con.commit()
        except BaseException:
            self.close()
            raise

    def _row(self, info: ObjectInfo) -> tuple[str | float | None, ...]:
        match = _OF_SHARD.fullmatch(info.key)
        chain, number = None, None
        if match is not None:
            chain = match[1] or match[3]
            number = int(match[2] or match[4]) // SHARD_BLOCKS
            self._counts[chain, number] += 1
            facts = f"{info.key}\n{info.size} {info.version}\n"
            self._hashes[chain, number].update(facts.encode())
        return info.key, info.size, info.version, info.modified, chain, number

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

    def close(self) -> None:
        """Forget it."""
        self._stack.close()

    def find(self, key: str) -> ObjectInfo | None:
        """An object as listed; a listing is not believed, what it lacks is asked for by name."""
        with self._on_disk():
            row = self._con.execute(f"{_FIND} key = ?", [key]).fetchone()
        return ObjectInfo(*row) if row else self._store.head(key)

    def present(
        self, key: str, size: int, named_by: str, missing: Remedy, damaged: Remedy
    ) -> Iterator[Finding]:
        """That an object is not there, or not with all its bytes."""
        info, place = self.find(key), self._store.describe(key)
        if info is None:
            what = f"{named_by} names it, and it is not there"
            yield Finding(Problem.MISSING, place, what, missing)
        elif info.size != size:
            what = f"it has {info.size} bytes, not {size}"
            yield Finding(Problem.DAMAGED, place, what, damaged)

    def sizes(self, first: str, ending: str) -> tuple[int, int]:
        """How many listed keys begin and end so, and how many bytes they have."""
        query = (
            "select count(*), coalesce(sum(size), 0) from objects "
            "where key >= ? and key < ? and key glob ?"
        )
        with self._on_disk():
            values = [first, f"{first}\U0010ffff", f"*{ending}"]
            count, size = self._con.execute(query, values).fetchone()
        return int(count), int(size)

    def sampled_zips(self, chain_id: str, number: int) -> list[tuple[int, str]]:
        """So many of a chain's ZIPs at random, each by its shard."""
        query = (
            "select shard, key from objects where chain = ? and key glob '*.zip' "
            "order by random() limit ?"
        )
        with self._on_disk():
            return self._con.execute(query, [chain_id, number]).fetchall()

    def cross_off(self, keys: Iterable[str]) -> None:
        """These are accounted for."""
        with self._on_disk():
            self._con.executemany("delete from objects where key = ?", [(key,) for key in keys])

    def shard_state(self, chain_id: str, number: int) -> tuple[int, str]:
        """How many objects were listed of a chain's shard; the SHA-256 over what was listed."""
        shard = (chain_id, number)
        return self._counts[shard], self._hashes[shard].hexdigest()

    def cross_off_shards(self, chain_id: str, numbers: Iterable[int]) -> None:
        """All that was listed of these shards of a chain is accounted for."""
        chosen = "chain = ? and shard in (select value from json_each(?))"
        with self._on_disk():
            delete = f"delete from objects where {chosen}"  # noqa: S608 - ours
            self._con.execute(delete, [chain_id, json.dumps([*numbers])])

    def left(self, first: str = "") -> Iterator[ObjectInfo]:
        """What was not crossed off of keys that begin so, by key."""
        last, after = first, f"{first}\U0010ffff"
        while True:
            with self._on_disk():
                query = f"{_FIND} key > ? and key < ? order by key limit ?"
                rows = self._con.execute(query, [last, after, _AT_ONCE]).fetchall()
            yield from (ObjectInfo(*row) for row in rows)
            if len(rows) < _AT_ONCE:
                return
            last = rows[-1][0]


def stranger_findings(
    store: Store, listing: StoreListing, chains: Collection[str]
) -> Iterator[Finding]:
    """Yield what is left of a listing from which all that is named was crossed off.

    None is younger than an hour: a publisher at work may not have named it yet.
    """
    listing.cross_off((CHAINS, HOME))
    folders: Counter[str] = Counter()
    for info in listing.left():
        top, slash, _ = info.key.partition("/")
        is_young = listing.time - info.modified < YOUNG_SECONDS
        if top == SCRATCH or is_young:
            continue
        if slash and top not in chains:
            folders[top] += 1
            continue
        place = store.describe(info.key)
        yield Finding(Problem.ORPHAN, place, "nothing in the archive names it", move_away(place))
    for folder, count in sorted(folders.items()):
        place = store.describe(folder)
        what = f"it is the folder of no chain of this archive, and holds {count} files"
        yield Finding(Problem.ORPHAN, place, what, move_away(place))
