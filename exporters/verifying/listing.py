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
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from exporters.archive.archive import CHAINS
from exporters.archive.shards import SHARD_BLOCKS
from exporters.archive.sound_documents import HOME
from transforms.objects import ObjectInfo
from transforms.scratch import scratch_folder
from transforms.stores.store import SCRATCH, Store
from transforms.tables.registry import HISTORY_TABLES
from transforms.verifying.findings import Finding, Problem, move_away
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


@dataclass(slots=True)
class ListedShard:
    """The objects whose names belong to a shard: its documents, ZIPs and hash files."""

    count: int = 0
    _hash: _Hash = field(default_factory=hashlib.sha256)

    def add(self, info: ObjectInfo) -> None:
        """Take in an object, in the store's order."""
        self.count += 1
        self._hash.update(f"{info.key}\n{info.size} {info.version}\n".encode())

    @property
    def digest(self) -> str:
        """The SHA-256 over all names, sizes and versions."""
        return self._hash.hexdigest()


class StoreListing:
    """What a store listed at one moment; what was accounted for is crossed off.

    Raises what listing raises: `ConfigError` where there is no such place.
    """

    def __init__(self, store: Store, scratch: Path | None) -> None:
        self._stack = ExitStack()
        folder = self._stack.enter_context(scratch_folder(scratch))
        self._lock = threading.Lock()
        self.time = store.now()
        self._path = folder / "objects.sqlite"
        self._shards: dict[tuple[str, int], ListedShard] = {}
        try:
            with self._locked():
                self._con = sqlite3.connect(self._path, check_same_thread=False)
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
            self._shards.setdefault((chain, number), ListedShard()).add(info)
        return info.key, info.size, info.version, info.modified, chain, number

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One at a time; that there is no room on the disk is an error of the machine."""
        try:
            with self._lock:
                yield
        except sqlite3.OperationalError as error:
            # It says that there is no room, or that a write failed, and never where.
            number = errno.ENOSPC if "full" in str(error) else errno.EIO
            what = f"{os.strerror(number)} ({error})"
            raise OSError(number, what, str(self._path)) from error

    def close(self) -> None:
        """Forget it."""
        if hasattr(self, "_con"):
            self._con.close()
        self._stack.close()

    def find(self, key: str) -> ObjectInfo | None:
        """An object that was listed, and was not crossed off."""
        with self._locked():
            query = "select key, size, version, modified from objects where key = ?"
            row = self._con.execute(query, [key]).fetchone()
        return ObjectInfo(*row) if row else None

    def count(self, first: str, ending: str) -> int:
        """How many listed keys begin and end so."""
        with self._locked():
            query = "select count(*) from objects where key >= ? and key < ? and key glob ?"
            after = f"{first}\U0010ffff"
            return int(self._con.execute(query, [first, after, f"*{ending}"]).fetchone()[0])

    def cross_off(self, keys: Iterable[str]) -> None:
        """These are accounted for."""
        with self._locked():
            self._con.executemany("delete from objects where key = ?", [(key,) for key in keys])

    def shard(self, chain_id: str, number: int) -> ListedShard:
        """What was listed of a chain's shard."""
        return self._shards.get((chain_id, number), ListedShard())

    def cross_off_shards(self, chain_id: str, numbers: Iterable[int]) -> None:
        """All that was listed of these shards of a chain is accounted for."""
        with self._locked():
            chosen = "chain = ? and shard in (select value from json_each(?))"
            delete = f"delete from objects where {chosen}"  # noqa: S608 - ours
            self._con.execute(delete, [chain_id, json.dumps([*numbers])])

    def left(self, first: str = "") -> Iterator[ObjectInfo]:
        """What was not crossed off of keys that begin so, by key."""
        query = (
            "select key, size, version, modified from objects "
            "where key > ? and key < ? order by key limit ?"
        )
        last, after = first, f"{first}\U0010ffff"
        while True:
            with self._locked():
                rows = self._con.execute(query, [last, after, _AT_ONCE]).fetchall()
            yield from (ObjectInfo(*row) for row in rows)
            if len(rows) < _AT_ONCE:
                return
            last = rows[-1][0]

    def folders(self) -> list[str]:
        """The first parts of all keys that have several."""
        with self._locked():
            query = (
                "select distinct substr(key, 1, instr(key, '/') - 1) from objects "
                "where instr(key, '/') > 0 order by 1"
            )
            return [str(name) for (name,) in self._con.execute(query)]


@contextmanager
def local_copy(store: Store, key: str, scratch: Path | None, name: str) -> Iterator[Path]:
    """An object as a local file: a folder's own, or a copy of this name, for the block.

    Raises `FileNotFoundError` where it is not there.
    """
    own = store.path(key)
    if own is not None:
        if not own.is_file():
            raise FileNotFoundError(own)
        yield own
        return
    with scratch_folder(scratch) as folder:
        copy = folder / name
        store.fetch(key, copy)
        yield copy


_TABLES = "|".join(HISTORY_TABLES)
_OURS = re.compile(
    rf"[^/]+/(?:(?:{_TABLES})/[^/]+-\d+-\d+\.zip(?:\.sha256)?"
    r"|index/(?:blocks-)?\d+\.(?:json|html|sha256)|index\.(?:json|html)|revisions(?:\.copy)?\.json"
    r"|(?:latest|conditions)\.json|strata\.(?:sql|duckdb)|SHA256SUMS|(?:SHA256SUMS|index\.json)\.minisig)"
)


def stranger_findings(
    store: Store, listing: StoreListing, chains: Collection[str]
) -> Iterator[Finding]:
    """Yield what is left of a listing from which all that is named was crossed off.

    What a publisher at work may have put there, and not named yet, is none for an hour.
    """
    listing.cross_off((CHAINS, HOME))
    folders: Counter[str] = Counter()
    for info in listing.left():
        top, slash, _ = info.key.partition("/")
        is_young = listing.time - info.modified < YOUNG_SECONDS
        if top == SCRATCH or (is_young and _OURS.fullmatch(info.key)):
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
