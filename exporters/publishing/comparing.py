"""What an archive lacks: the names of all its objects, held against what its shards say.

A listing brings names and sizes of a thousand objects a request, so this costs a small part of
reading the archive; what the bytes are is for `exporters.verifying` to say.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry, Json, range_of
from exporters.archive.index import ArchiveIndex
from exporters.archive.json_text import parsed
from exporters.archive.shards import SHARD_BLOCKS, group_number, group_path, shard_at, shard_path
from exporters.archive.sound_documents import is_begun
from exporters.zip_names import ZipName, parse_zip_name
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.stores.store import asked_together
from transforms.tables.registry import HISTORY_TABLES


@dataclass(frozen=True, slots=True)
class Unnamed:
    """A ZIP in the archive, by its path below the chain's folder, and what its name says."""

    path: str
    name: ZipName

    @classmethod
    def at(cls, archive: Archive, path: str) -> Unnamed | None:
        """The ZIP at a path; None where a ZIP of that name has no business there."""
        table, _, file = path.partition("/")
        name = parse_zip_name(file) if table in HISTORY_TABLES else None
        is_own = name is not None and (name.chain_id, name.table) == (archive.chain_id, table)
        return cls(path, name) if name is not None and is_own else None


Progress = Callable[[str, int, int], None]
"""Called with what is looked at, how many of it were, and how many there are (0: not known)."""

_HASH = ".sha256"


@dataclass(slots=True)
class Differences:
    """What is missing or does not belong together.

    `missing` and `altered` are entries whose ZIP is not there, or has another size; `unhashed`
    those without a hash file; `unnamed` ZIPs that no sound shard names; `lost` the numbers of
    shards that are damaged, or gone though the index names them; `stale` those whose hash list or
    page is missing, or that the index knows otherwise. `shards` are all numbers, `zips` counts the
    entries that were looked at, `singles` the tables of each segment that have a ZIP of their own.
    """

    shards: list[int] = field(default_factory=list)
    zips: int = 0
    lost: list[int] = field(default_factory=list)
    stale: list[int] = field(default_factory=list)
    missing: list[Entry] = field(default_factory=list)
    altered: list[Entry] = field(default_factory=list)
    unhashed: list[Entry] = field(default_factory=list)
    unnamed: list[Unnamed] = field(default_factory=list)
    singles: Counter[BlockRange] = field(default_factory=Counter)

    @property
    def is_nothing(self) -> bool:
        """Whether all that the shards name is there, and nothing else."""
        return not any(
            (self.lost, self.stale, self.missing, self.altered, self.unhashed, self.unnamed)
        )


def compare(archive: Archive, progress: Progress) -> Differences:
    """Look at everything that a chain's archive should have. Holds names and sizes in memory."""
    result = Differences()
    # A folder that nobody has made yet holds nothing.
    if not is_begun(archive.store) or not next(archive.store.list(archive.key("")), None):
        return result
    sizes, hashed = _listed(archive, progress)
    start = len(archive.key(""))
    documents = {info.key[start:] for info in archive.store.list(archive.key("index/"))}
    try:
        index = archive.index()
    except IntegrityError:
        index = ArchiveIndex(archive.chain_id)  # it is made again from the shards
    # Its hash list tells of a shard that is gone together with the index.
    stored = map(shard_at, (path.replace(_HASH, ".json") for path in documents))
    result.shards = sorted({n for n in stored if n is not None}.union(index.shards))
    # As shards are looked at, what they name is taken out.
    unnamed = {path for path in sizes if path.endswith(".zip")}
    for count, number in enumerate(result.shards, 1):
        path = shard_path(number)
        data = archive.read(path)
        zips = _zips(archive, number, data)
        if data is None or zips is None:
            result.lost.append(number)
        else:
            _compare_zips(archive, number, zips, sizes, hashed, result)
            unnamed.difference_update(item.path for item in zips)
        page = group_path(group_number(number))
        follow = {path.replace(".json", _HASH), path.replace(".json", ".html"), page}
        sha256 = hashlib.sha256(data or b"").hexdigest()
        summary = index.shards.get(number)
        if not documents >= follow or summary is None or summary.sha256 != sha256:
            result.stale.append(number)
        progress("shards", count, len(result.shards))
    strays = (Unnamed.at(archive, path) for path in sorted(unnamed))
    result.unnamed = [stray for stray in strays if stray is not None]
    return result


def _listed(archive: Archive, progress: Progress) -> tuple[dict[str, int], set[str]]:
    """What lies in the folders of tables: sizes by path, and the paths that have a hash file."""
    start = len(archive.key(""))

    def listing(table: str) -> tuple[dict[str, int], set[str]]:
        sizes: dict[str, int] = {}
        hashed: set[str] = set()
        for info in archive.store.list(archive.key(f"{table}/")):
            if info.key.endswith(_HASH):
                hashed.add(info.key[start : -len(_HASH)])
            else:
                sizes[info.key[start:]] = info.size
        return sizes, hashed

    all_sizes: dict[str, int] = {}
    all_hashed: set[str] = set()
    # A bucket answers a page at a time.
    for sizes, hashed in asked_together(archive.store, listing, HISTORY_TABLES):
        all_sizes |= sizes
        all_hashed |= hashed
        progress("objects", len(all_sizes) + len(all_hashed), 0)
    return all_sizes, all_hashed


class _Zip(NamedTuple):
    """No more of an entry than is needed here: an `Entry` takes five times as long to make."""

    path: str
    size: int
    blocks: BlockRange
    is_single: bool


def _compare_zips(
    archive: Archive,
    number: int,
    zips: list[_Zip],
    sizes: Mapping[str, int],
    hashed: Set[str],
    result: Differences,
) -> None:
    """Note what a shard names and what is not there as it says."""
    result.zips += len(zips)
    result.singles.update(item.blocks for item in zips if item.is_single)
    missing = {item.path for item in zips if item.path not in sizes}
    altered = {item.path for item in zips if sizes.get(item.path, item.size) != item.size}
    unhashed = {item.path for item in zips if item.path not in hashed} - missing
    if missing or altered or unhashed:
        entries = archive.shard(number).entries
        result.missing += (entry for entry in entries if entry.path in missing)
        result.altered += (entry for entry in entries if entry.path in altered)
        result.unhashed += (entry for entry in entries if entry.path in unhashed)


def _zips(archive: Archive, number: int, data: bytes | None) -> list[_Zip] | None:
    """What a shard names; None where it is gone or damaged."""

    def read(document: Json) -> list[_Zip]:
        if (document["chain_id"], document["from"]) != (archive.chain_id, number * SHARD_BLOCKS):
            raise ValueError("it is another shard")
        return [
            _Zip(entry["path"], entry["bytes"], range_of(entry), len(entry["segments"]) == 1)
            for entry in document["zips"]
        ]

    try:
        return None if data is None else parsed(data, archive.place(shard_path(number)), read)
    except IntegrityError:
        return None
