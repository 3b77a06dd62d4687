"""What an archive lacks: the names of all its objects, held against what its shards say.

A listing brings names and sizes of a thousand objects a request, so this costs a small part of
reading the archive; what the bytes are is for `exporters.verifying` to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry, Json, range_of
from exporters.archive.hash_lists import SUMS, parse_sums
from exporters.archive.index import ArchiveIndex, ShardSummary
from exporters.archive.json_text import parsed
from exporters.archive.shards import SHARD_BLOCKS, hashes_path, shard_at
from exporters.archive.sound_documents import is_begun, sound_index
from exporters.zip_names import parse_zip_name
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.stores.store import asked_together
from transforms.tables.registry import HISTORY_TABLES

Progress = Callable[[str, int, int], None]
"""Called with what is looked at, how many of it were, and how many there are (0: not known)."""

_HASH = ".sha256"


@dataclass(slots=True)
class Differences:
    """What is missing or does not belong together.

    `missing` are entries whose ZIP or hash file is not there, `altered` those whose ZIP has another
    size; `lost` the numbers of shards that are damaged, or gone though the
    index names them; `unnamed` the blocks of ZIPs that no sound shard names; `stale` the shards
    whose hash list or page is missing, or that `SHA256SUMS` does not name as the index does.
    `shards` are all numbers, `zips` counts the entries that were looked at, `tables` those of each
    segment.
    """

    shards: list[int] = field(default_factory=list)
    zips: int = 0
    lost: list[int] = field(default_factory=list)
    unnamed: set[BlockRange] = field(default_factory=set)
    stale: list[int] = field(default_factory=list)
    missing: list[Entry] = field(default_factory=list)
    altered: list[Entry] = field(default_factory=list)
    tables: Counter[BlockRange] = field(default_factory=Counter)

    @property
    def is_nothing(self) -> bool:
        """Whether all that the shards name is there."""
        return not any((self.lost, self.stale, self.missing, self.altered))


def compare(archive: Archive, progress: Progress) -> Differences:
    """Look at everything that a chain's archive should have. Holds names and sizes in memory."""
    result = Differences()
    # A folder that nobody has made yet holds nothing.
    if not is_begun(archive.store) or not next(archive.store.list(archive.key("")), None):
        return result
    sizes = _listed(archive, progress)
    start = len(archive.key(""))
    documents = {info.key[start:] for info in archive.store.list(archive.key("index/"))}
    index, sums = sound_index(archive), parse_sums(archive.read(SUMS) or b"")
    # Its hash list tells of a shard that is gone together with the index.
    stored = (shard_at(path, of_hashes=True) for path in documents)
    result.shards = sorted({n for n in stored if n is not None}.union(index.shards))
    unnamed = {path for path in sizes if path.endswith(".zip")}
    for count, number in enumerate(result.shards, 1):
        summary = index.shards.get(number)
        zips = _zips(archive, summary) if summary else None
        if summary is None or zips is None:
            result.lost.append(number)
        else:
            _compare_zips(archive, index, number, zips, sizes, result)
            unnamed.difference_update(item["path"] for item in zips)
            hashes, page = hashes_path(number), f"{summary.stem}.html"
            named = (sums.get(summary.path), sums.get(hashes))
            if not documents >= {hashes, page} or named != (summary.sha256, summary.hashes_sha256):
                result.stale.append(number)
        progress("shards", count, len(result.shards))
    names = (parse_zip_name(path.rpartition("/")[2]) for path in unnamed)
    result.unnamed = {name.blocks for name in names if name and name.chain_id == archive.chain_id}
    return result


def _listed(archive: Archive, progress: Progress) -> dict[str, int]:
    """What lies in the folders of tables: sizes by path below the chain's folder."""
    start = len(archive.key(""))

    def listing(table: str) -> dict[str, int]:
        return {i.key[start:]: i.size for i in archive.store.list(archive.key(f"{table}/"))}

    sizes: dict[str, int] = {}
    # A bucket answers a page at a time.
    for of_table in asked_together(archive.store, listing, HISTORY_TABLES):
        sizes |= of_table
        progress("objects", len(sizes), 0)
    return sizes


def _zips(archive: Archive, summary: ShardSummary) -> list[Json] | None:
    """What a shard names, as it stands there, which costs a fifth of entries; None: it is lost."""

    def read(document: Json) -> list[Json]:
        first = summary.number * SHARD_BLOCKS
        if (document["chain_id"], document["from"]) != (archive.chain_id, first):
            raise ValueError("it is another shard")
        return list(document["zips"])

    try:
        return parsed(archive.shard_bytes(summary), archive.place(summary.path), read)
    except IntegrityError:
        return None


def _compare_zips(
    archive: Archive,
    index: ArchiveIndex,
    number: int,
    zips: list[Json],
    sizes: dict[str, int],
    result: Differences,
) -> None:
    """Note what a shard names and what is not there as it says."""
    result.zips += len(zips)
    result.tables.update(map(range_of, zips))
    if all(
        sizes.get(item["path"]) == item["bytes"] and f"{item['path']}{_HASH}" in sizes
        for item in zips
    ):
        return
    for entry in archive.shard(number, index).entries:
        size = sizes.get(entry.path)
        if size is not None and size != entry.bytes:
            result.altered.append(entry)
        elif size is None or f"{entry.path}{_HASH}" not in sizes:
            result.missing.append(entry)
