"""What an archive lacks: the names of all its objects, held against what its shards say.

A listing brings names and sizes of a thousand objects a request, so this costs a small part of
reading the archive; what the bytes are is for `exporters.verifying` to say.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import NamedTuple

import polars as pl

from exporters.archive.archive import Archive
from exporters.archive.documents import is_begun
from exporters.archive.entries import Entry, range_of
from exporters.archive.index import ArchiveIndex
from exporters.archive.json_text import UNREADABLE, proven_text, unreadable
from exporters.archive.page import group_number, group_path
from exporters.archive.shards import SHARD_BLOCKS, shard_at, shard_path
from exporters.publishing.adopting import Unnamed
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo
from transforms.tables.registry import HISTORY_TABLES

Progress = Callable[[str, int, int], None]
"""Called with what is looked at, how many of it were, and how many there are (0: not known)."""

_STEP = 20_000
_LISTERS = 8
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
    entries = pl.concat([_frame([], []), *(shard.zips for shard in shards)])
    pairs = entries.join(there, on="path", how="left", suffix="_there")
    absent = pairs.filter(pl.col("size_there").is_null())
    altered = pairs.filter(pl.col("size_there") != pl.col("size"))
    hashes = there.filter(pl.col("path").str.ends_with(_HASH)).select(
        pl.col("path").str.strip_suffix(_HASH)
    )
    unhashed = entries.join(hashes, on="path", how="anti").join(absent, on="path", how="anti")
    zips = there.filter(pl.col("path").str.ends_with(".zip"))
    unnamed = zips.join(entries, on="path", how="anti").get_column("path").sort()
    return Differences(
        tuple(numbers),
        entries.height,
        tuple(shard.number for shard in shards if shard.is_lost),
        tuple(shard.number for shard in shards if shard.is_stale),
        tuple(_entries(archive, absent)),
        tuple(_entries(archive, altered)),
        tuple(_entries(archive, unhashed)),
        tuple(stray for path in unnamed if (stray := Unnamed.at(archive, path)) is not None),
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


def _listed(archive: Archive, progress: Progress) -> pl.DataFrame:
    """Paths and sizes of all that lies in the folders of the tables."""
    frames = [_frame([], [])]
    count = 0
    # A bucket answers a page at a time: the tables are listed side by side.
    with ThreadPoolExecutor(_LISTERS) as pool:
        for frame in pool.map(partial(_listed_table, archive), HISTORY_TABLES):
            frames.append(frame)
            count += frame.height
            progress("objects", count, 0)
    return pl.concat(frames)


def _listed_table(archive: Archive, table: str) -> pl.DataFrame:
    start = len(archive.key(""))
    frames = [_frame([], [])]
    for some in _batched(archive.store.list(archive.key(f"{table}/")), _STEP):
        frames.append(_frame([info.key[start:] for info in some], [info.size for info in some]))
    return pl.concat(frames)


def _batched(objects: Iterator[ObjectInfo], size: int) -> Iterator[list[ObjectInfo]]:
    """Cut a listing into lists, so that no more of it is held as objects."""
    while some := list(islice(objects, size)):
        yield some


@dataclass(frozen=True, slots=True)
class _Looked:
    """A shard: path, size and its number for each ZIP that it names, the blocks of single ones."""

    number: int
    zips: pl.DataFrame
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
    lost = _Looked(number, _frame([], []), [], is_lost=True, is_stale=True)
    data = archive.read(path)
    if data is None:
        return lost
    try:
        zips = _zips(archive, number, data)
    except IntegrityError:
        return lost
    sha256 = hashlib.sha256(data).hexdigest()
    is_known = [item.sha256 for item in index.totals([number])] == [sha256]
    frame = _frame([item.path for item in zips], [item.size for item in zips], number)
    singles = [item.blocks for item in zips if item.is_single]
    return _Looked(
        number,
        frame,
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


def _entries(archive: Archive, rows: pl.DataFrame) -> Iterator[Entry]:
    for number in rows.get_column("shard").unique().sort():
        paths = set(rows.filter(pl.col("shard") == number).get_column("path"))
        yield from (entry for entry in archive.shard(number).entries if entry.path in paths)


def _frame(paths: list[str], sizes: list[int], shard: int = 0) -> pl.DataFrame:
    """Columns `path`, `size` (bytes) and `shard` (its number)."""
    columns = {"path": paths, "size": sizes, "shard": [shard] * len(paths)}
    return pl.DataFrame(columns, schema={"path": pl.String, "size": pl.Int64, "shard": pl.Int64})
