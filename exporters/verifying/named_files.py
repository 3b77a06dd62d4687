"""Files of an archive that nothing names: no entry, no document, no table of the lake.

A large archive has millions of ZIPs and hash files. Of those that are named it is remembered which
tables have one over which blocks; of everything else the keys are few.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

from transforms.stores.store import Store
from transforms.verifying.findings import Finding, Problem, move_away

YOUNG_SECONDS = 3600.0
"""How long a file may be there before something must name it: a publisher may be at work."""

# Its chain, its table, its blocks; the first two stand there twice.
_ZIP = re.compile(r"([^/]+)/([^/]+)/\1-\2-(\d+-\d+)\.zip(?:\.sha256)?")


class NamedFiles:
    """What a store's documents and lakes name, as a check comes upon it."""

    def __init__(self, store: Store) -> None:
        self._store, self._began = store, store.now()
        self._keys: set[str] = set()
        self._tables: dict[str, frozenset[str]] = {}

    def add(self, keys: Iterable[str]) -> None:
        """These are named."""
        self._keys.update(keys)

    def add_zips(self, keys: Iterable[str]) -> None:
        """These ZIPs are named, and with each the hash file beside it."""
        for match in filter(None, map(_ZIP.fullmatch, keys)):
            blocks = f"{match[1]} {match[3]}"
            self._tables[blocks] = _with(self._tables.get(blocks, frozenset()), match[2])

    def strangers(self, chain_ids: Collection[str]) -> Iterator[Finding]:
        """Yield what is listed and not named; of a folder of no chain how much it holds.

        Nothing that was written since an hour before this was made, and no folder with such.
        """
        store, folders, busy = self._store, Counter[str](), set[str]()
        for info in store.list():
            top, slash, _ = info.key.partition("/")
            is_young = self._began - info.modified < YOUNG_SECONDS
            if slash and top not in chain_ids:
                folders[top] += 1
                busy |= {top} if is_young else set()
            elif not (is_young or self._is_named(info.key)):
                place, what = store.describe(info.key), "nothing in the archive names it"
                yield Finding(Problem.ORPHAN, place, what, move_away(place))
        for top, count in folders.items():
            if top in busy:
                continue
            place = store.describe(top)
            what = f"it is the folder of no chain of this archive, and holds {count:,} files"
            yield Finding(Problem.ORPHAN, place, what, move_away(place, f"./{top}"))

    def _is_named(self, key: str) -> bool:
        if match := _ZIP.fullmatch(key):
            return match[2] in self._tables.get(f"{match[1]} {match[3]}", ())
        return key in self._keys


@lru_cache(maxsize=4096)
def _with(tables: frozenset[str], table: str) -> frozenset[str]:
    """One more table: nearly all blocks have the same, which are one object in memory."""
    return tables | {table}
