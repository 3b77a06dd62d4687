"""What lies in an archive when a check of it begins.

A large archive has millions of ZIPs and hash files. So of those of a shard there are their number
and a hash over names, sizes and versions, by which the next quick check sees that they are the
same; the names of everything else are few.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from exporters.archive.shards import SHARD_BLOCKS
from transforms.objects import ObjectInfo
from transforms.stores.store import Store
from transforms.verifying.verification import YOUNG_SECONDS

_OF_SHARD = re.compile(
    r"[^/]+/[^/]+-(\d{1,19})-\d{1,19}\.zip(?:\.sha256)?"
    r"|index/(\d{1,19})\.(?:json|html|sha256)"
)


@dataclass(slots=True)
class ShardFiles:
    """The ZIPs of a shard and what lies beside them, and itself with its documents.

    `named` are their keys by the shard, where there are more files than these.
    """

    count: int = 0
    zips: int = 0
    bytes: int = 0
    named: Collection[str] = ()
    _digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    def add(self, info: ObjectInfo) -> None:
        """One more file."""
        self.count += 1
        self._digest.update(f"{info.key} {info.size} {info.version}\n".encode())
        if info.key.endswith(".zip"):
            self.zips += 1
            self.bytes += info.size

    @property
    def digest(self) -> str:
        """The hash over their names, sizes and versions."""
        return self._digest.hexdigest()


class Listing:
    """What lies in a store with these chains: what a check has accounted for is taken out of it.

    `shards` are by chain and number, `others` the keys of what is not a shard's; `folders` counts
    the files in folders of no chain. Raises `ConfigError` where there is no such place.
    """

    def __init__(self, store: Store, chains: Collection[str]) -> None:
        self._store, self._time = store, store.now()
        self.shards: defaultdict[tuple[str, int], ShardFiles] = defaultdict(ShardFiles)
        self.others: set[str] = set()
        self.folders: Counter[str] = Counter()
        for info in store.list():
            top, slash, _ = info.key.partition("/")
            if slash and top not in chains:
                self.folders[top] += self._is_old(info)
            elif shard := _shard_of(info.key):
                self.shards[shard].add(info)
            else:
                self.others.add(info.key)

    def of_chain(self, chain_id: str) -> list[ShardFiles]:
        """The files of a chain's shards."""
        return [files for (chain, _), files in self.shards.items() if chain == chain_id]

    def has(self, first: str) -> bool:
        """Whether there is anything but files of shards whose key begins so."""
        return any(key.startswith(first) for key in self.others)

    def name(self, keys: Iterable[str]) -> None:
        """These are accounted for."""
        self.others.difference_update(keys)

    def strangers(self) -> Iterator[ObjectInfo]:
        """What nothing accounts for; asks the store once more if there is any.

        None is younger than an hour: a publisher at work may not have named it yet.
        """
        if self.shards or self.others:
            for info in self._store.list():
                shard = _shard_of(info.key)
                files = self.shards.get(shard) if shard else None
                is_strange = info.key not in files.named if files else info.key in self.others
                if is_strange and self._is_old(info):
                    yield info

    def _is_old(self, info: ObjectInfo) -> bool:
        return self._time - info.modified >= YOUNG_SECONDS


def _shard_of(key: str) -> tuple[str, int] | None:
    """The chain and the number of the shard that an object belongs to, if it is one of a shard."""
    chain_id, _, path = key.partition("/")
    match = _OF_SHARD.fullmatch(path)
    return (chain_id, int(match[1] or match[2]) // SHARD_BLOCKS) if match else None
