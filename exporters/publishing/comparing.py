"""What an archive lacks: the names of all its objects, held against what its shards say.

A listing brings names and sizes of a thousand objects a request, so this costs a small part of
reading the archive; what the bytes are is for `exporters.verifying` to say.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from exporters.archive.archive import Archive
from exporters.archive.documents import is_begun
from exporters.archive.entries import Entry, range_of
from exporters.archive.index import ArchiveIndex
from exporters.archive.json_text import UNREADABLE, proven_text, unreadable
from exporters.archive.page import group_number, group_path
from exporters.archive.shards import SHARD_BLOCKS, shard_at, shard_path
from exporters.publishing.unnamed import Unnamed
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo
from transforms.stores.store import asked_together
from transforms.tables.registry import HISTORY_TABLES

Progress = Callable[[str, int, int], None]
"""Called with what is looked at, how many of it were, and how many there are (0: not known)."""

_STEP = 20_000
_HASH = ".sha256"
_ROWS = pa.schema([("path", pa.large_string()), ("size", pa.int64()), ("shard", pa.int64())])


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
    shards = [_look(archive, number, index, documents) for number in _counted(numbers, progress)]
    entries = pa.concat_tables([_rows([], []), *(shard.zips for shard in shards)])
    places = pc.index_in(entries["path"], value_set=there["path"])
    is_absent = pc.is_null(places)
    is_altered = pc.not_equal(there["size"].take(places), entries["size"])
    is_hash = pc.ends_with(there["path"], _HASH)
    hashes = pc.utf8_slice_codeunits(there["path"].filter(is_hash), 0, -len(_HASH))
    is_hashed = pc.is_in(entries["path"], value_set=hashes)
    zips = there["path"].filter(pc.ends_with(there["path"], ".zip"))
    unnamed = zips.filter(pc.invert(pc.is_in(zips, value_set=entries["path"])))
    return Differences(
        tuple(numbers),
        entries.num_rows,
        tuple(shard.number for shard in shards if shard.is_lost),
        tuple(shard.number for shard in shards if shard.is_stale),
        tuple(_entries(archive, entries.filter(is_absent))),
        tuple(_entries(archive, entries.filter(is_altered))),
        tuple(_entries(archive, entries.filter(pc.invert(pc.or_(is_hashed, is_absent))))),
        tuple(
            stray
            for path in sorted(unnamed.to_pylist())
            if (stray := Unnamed.at(archive, path)) is not None
        ),
        Counter(blocks for shard in shards for blocks in shard.singles),
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


def _listed(archive: Archive, progress: Progress) -> pa.Table:
    """Paths and sizes of all that lies in the folders of the tables."""
    tables = [_rows([], [])]
    count = 0
    # A bucket answers a page at a time.
    for listed in asked_together(archive.store, partial(_listed_table, archive), HISTORY_TABLES):
        tables.append(listed)
        count += listed.num_rows
        progress("objects", count, 0)
    return pa.concat_tables(tables)


def _listed_table(archive: Archive, table: str) -> pa.Table:
    start = len(archive.key(""))
    pages = [_rows([], [])]
    for some in _batched(archive.store.list(archive.key(f"{table}/")), _STEP):
        pages.append(_rows([info.key[start:] for info in some], [info.size for info in some]))
    return pa.concat_tables(pages)


def _batched(objects: Iterator[ObjectInfo], size: int) -> Iterator[list[ObjectInfo]]:
    """Cut a listing into lists, so that no more of it is held as objects."""
    while some := list(islice(objects, size)):
        yield some


@dataclass(frozen=True, slots=True)
class _Looked:
    """A shard: path, size and its number for each ZIP that it names, the blocks of single ones."""

    number: int
    zips: pa.Table
    singles: list[BlockRange]
    is_lost: bool
    is_stale: bool


def _counted(numbers: list[int], progress: Progress) -> Iterator[int]:
    for count, number in enumerate(numbers, 1):
        yield number
        progress("shards", count, len(numbers))


def _look(archive: Archive, number: int, index: ArchiveIndex, documents: Set[str]) -> _Looked:
    path = shard_path(number)
    follow = (path.replace(".json", _HASH), path.replace(".json", ".html"))
    is_stale = not documents >= {*follow, group_path(group_number(number))}
    lost = _Looked(number, _rows([], []), [], is_lost=True, is_stale=True)
    data = archive.read(path)
    if data is None:
        return lost
    try:
        zips = _zips(archive, number, data)
    except IntegrityError:
        return lost
    sha256 = hashlib.sha256(data).hexdigest()
    is_known = [item.sha256 for item in index.totals([number])] == [sha256]
    rows = _rows([item.path for item in zips], [item.size for item in zips], number)
    singles = [item.blocks for item in zips if item.is_single]
    return _Looked(
        number,
        rows,
        singles,
        is_lost=False,
        is_stale=is_stale or not is_known,
    )


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


def _entries(archive: Archive, rows: pa.Table) -> Iterator[Entry]:
    paths: defaultdict[int, set[str]] = defaultdict(set)
    for row in rows.to_pylist():
        paths[row["shard"]].add(row["path"])
    for number in sorted(paths):
        yield from (entry for entry in archive.shard(number).entries if entry.path in paths[number])


def _rows(paths: list[str], sizes: list[int], shard: int = 0) -> pa.Table:
    """Columns `path`, `size` (bytes) and `shard` (its number)."""
    return pa.table([paths, sizes, [shard] * len(paths)], schema=_ROWS)
