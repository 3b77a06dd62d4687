"""What an archive lacks: the names of all its objects, held against what its shards say.

A listing brings names and sizes of a thousand objects a request, so this costs a small part of
reading the archive; what the bytes are is for `exporters.verifying` to say.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry, range_of
from exporters.archive.index import ArchiveIndex
from exporters.archive.json_text import UNREADABLE, proven_text, unreadable
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


@dataclass(frozen=True, slots=True)
class Differences:
    """What is missing or does not belong together.

    `missing` and `altered` are entries whose ZIP is not there, or has another size; `unhashed`
    those without a hash file; `unnamed` ZIPs that no sound shard names; `lost` the numbers of
    shards that are damaged, or gone though the index names them; `stale` those whose hash list or
    page is missing, or that the index knows otherwise. `shards` are all numbers, `zips` counts the
    entries that were looked at, `singles` the tables of each segment that have a ZIP of their own.
    """

    shards: tuple[int, ...] = ()
    zips: int = 0
    lost: tuple[int, ...] = ()
    stale: tuple[int, ...] = ()
    missing: tuple[Entry, ...] = ()
    altered: tuple[Entry, ...] = ()
    unhashed: tuple[Entry, ...] = ()
    unnamed: tuple[Unnamed, ...] = ()
    singles: Mapping[BlockRange, int] = field(default_factory=dict)

    @property
    def is_nothing(self) -> bool:
        """Whether all that the shards name is there, and nothing else."""
        return not any(
            (self.lost, self.stale, self.missing, self.altered, self.unhashed, self.unnamed)
        )


def compare(archive: Archive, progress: Progress) -> Differences:
    """Look at everything that a chain's archive should have. Holds names and sizes in memory."""
    if not _is_there(archive):
        return Differences()
    there = _listed(archive, progress)
    documents = frozenset(_names(archive, "index/"))
    index = _index(archive)
    stored = {number for path in documents if (number := shard_at(path)) is not None}
    numbers = sorted(stored | set(index.lines))
    # As shards are looked at, what they name is taken out.
    unnamed = {path for path in there.sizes if path.endswith(".zip")}
    shards: list[_Looked] = []
    singles = Counter[BlockRange]()
    for number in _counted(numbers, progress):
        shard, zips = _look(archive, number, index, documents, there)
        shards.append(shard)
        unnamed.difference_update(item.path for item in zips)
        singles.update(item.blocks for item in zips if item.is_single)
    return Differences(
        tuple(numbers),
        sum(shard.zips for shard in shards),
        tuple(shard.number for shard in shards if shard.is_lost),
        tuple(shard.number for shard in shards if shard.is_stale),
        tuple(_entries(archive, {shard.number: shard.missing for shard in shards})),
        tuple(_entries(archive, {shard.number: shard.altered for shard in shards})),
        tuple(_entries(archive, {shard.number: shard.unhashed for shard in shards})),
        tuple(
            stray for path in sorted(unnamed) if (stray := Unnamed.at(archive, path)) is not None
        ),
        singles,
    )


def _is_there(archive: Archive) -> bool:
    """Whether anything was ever published; a folder that nobody has made yet holds nothing."""
    return (
        is_begun(archive.store)
        and next(iter(archive.store.list(archive.key(""))), None) is not None
    )


def _index(archive: Archive) -> ArchiveIndex:
    try:
        return archive.index()
    except IntegrityError:
        return ArchiveIndex(archive.chain_id)  # it is made again from the shards


def _names(archive: Archive, folder: str) -> Iterator[str]:
    start = len(archive.key(""))
    return (info.key[start:] for info in archive.store.list(archive.key(folder)))


@dataclass(frozen=True, slots=True)
class _Listing:
    """What lies in the folders of tables: sizes by path, and the paths that have a hash file."""

    sizes: dict[str, int] = field(default_factory=dict)
    hashed: set[str] = field(default_factory=set)


def _listed(archive: Archive, progress: Progress) -> _Listing:
    whole = _Listing()
    # A bucket answers a page at a time.
    for listing in asked_together(archive.store, partial(_listed_table, archive), HISTORY_TABLES):
        whole.sizes.update(listing.sizes)
        whole.hashed.update(listing.hashed)
        progress("objects", len(whole.sizes) + len(whole.hashed), 0)
    return whole


def _listed_table(archive: Archive, table: str) -> _Listing:
    start = len(archive.key(""))
    listing = _Listing()
    for info in archive.store.list(archive.key(f"{table}/")):
        if info.key.endswith(_HASH):
            listing.hashed.add(info.key[start : -len(_HASH)])
        else:
            listing.sizes[info.key[start:]] = info.size
    return listing


@dataclass(frozen=True, slots=True)
class _Looked:
    """A shard: how many ZIPs it names, and the paths of those that are not there as it says."""

    number: int
    zips: int = 0
    is_lost: bool = False
    is_stale: bool = False
    missing: frozenset[str] = frozenset()
    altered: frozenset[str] = frozenset()
    unhashed: frozenset[str] = frozenset()


def _counted(numbers: list[int], progress: Progress) -> Iterator[int]:
    for count, number in enumerate(numbers, 1):
        yield number
        progress("shards", count, len(numbers))


def _look(
    archive: Archive, number: int, index: ArchiveIndex, documents: Set[str], there: _Listing
) -> tuple[_Looked, Sequence[_Zip]]:
    """What a shard says and what lies there, with the ZIPs that it names."""
    path = shard_path(number)
    data = archive.read(path)
    try:
        zips = None if data is None else _zips(archive, number, data)
    except IntegrityError:
        zips = None
    if data is None or zips is None:
        return _Looked(number, is_lost=True, is_stale=True), ()
    follow = (path.replace(".json", _HASH), path.replace(".json", ".html"))
    is_there = documents >= {*follow, group_path(group_number(number))}
    sha256 = hashlib.sha256(data).hexdigest()
    is_known = [item.sha256 for item in index.totals([number])] == [sha256]
    sizes = [(item, there.sizes.get(item.path)) for item in zips]
    present = [(item, size) for item, size in sizes if size is not None]
    shard = _Looked(
        number,
        len(zips),
        is_stale=not (is_there and is_known),
        missing=frozenset(item.path for item, size in sizes if size is None),
        altered=frozenset(item.path for item, size in present if size != item.size),
        unhashed=frozenset(item.path for item, _ in present if item.path not in there.hashed),
    )
    return shard, zips


class _Zip(NamedTuple):
    """No more of an entry than is needed here: an `Entry` takes five times as long to make."""

    path: str
    size: int
    blocks: BlockRange
    is_single: bool


def _zips(archive: Archive, number: int, data: bytes) -> list[_Zip]:
    """What a shard names. Raises `IntegrityError` where it is damaged."""
    place = archive.place(shard_path(number))
    text = proven_text(data, place)
    try:
        document = json.loads(text)
        if (document["chain_id"], document["from"]) != (archive.chain_id, number * SHARD_BLOCKS):
            raise IntegrityError(f"{place} is another shard")
        return [
            _Zip(entry["path"], entry["bytes"], range_of(entry), len(entry["segments"]) == 1)
            for entry in document["zips"]
        ]
    except UNREADABLE as error:
        raise unreadable(place, error) from error


def _entries(archive: Archive, paths: Mapping[int, Set[str]]) -> Iterator[Entry]:
    """The entries of these paths, by shard."""
    for number in filter(paths.get, paths):
        yield from (entry for entry in archive.shard(number).entries if entry.path in paths[number])
