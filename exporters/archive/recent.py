"""The newest segments of an archive, for documents that tell what is new."""

from __future__ import annotations

from dataclasses import dataclass

from exporters.archive.archive import Archive
from exporters.archive.entries import Json, range_of, times_of
from exporters.archive.index import ArchiveIndex, ShardSummary
from exporters.archive.json_text import parsed
from exporters.archive.shards import SHARD_BLOCKS, shard_path
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError

_MOST_SHARDS = 8  # that many are read at most, however few segments each has


@dataclass(frozen=True, slots=True)
class PublishedSegment:
    """A segment by its single ZIPs: how many there are, and their rows and bytes together.

    `times` are those of its first and last block, which the ZIP of blocks has; `shard` is the path
    of the shard that has them.
    """

    blocks: BlockRange
    times: tuple[str, str] | None
    zips: int
    rows: int
    bytes: int
    shard: str


def newest_segments(archive: Archive, index: ArchiveIndex, most: int) -> list[PublishedSegment]:
    """The published segments with the highest blocks, the newest first, of the last shards.

    Raises `IntegrityError` where one of these is damaged, or gone.
    """
    segments: list[PublishedSegment] = []
    for number in newest_shards(index, most):
        segments += reversed(_segments(archive, number))
    return segments[:most]


def newest_shards(index: ArchiveIndex, most: int) -> list[int]:
    """The numbers of the last shards, so many as have this many segments, the newest first."""
    numbers: list[int] = []
    for number in sorted(index.lines, reverse=True)[:_MOST_SHARDS]:
        numbers.append(number)
        tables = ShardSummary.parse(index.lines[number]).tables.values()
        most -= max((sums.zips for sums in tables), default=0)
        if most <= 0:
            break
    return numbers


def _segments(archive: Archive, number: int) -> list[PublishedSegment]:
    """The segments of a shard, ascending; of its entries no more is made than is needed here."""
    path = shard_path(number)
    place = archive.place(path)
    data = archive.read(path)
    if data is None:
        raise IntegrityError(f"{place} is gone: strata publish makes it again")

    def read(document: Json) -> list[PublishedSegment]:
        if (document["chain_id"], document["from"]) != (archive.chain_id, number * SHARD_BLOCKS):
            raise ValueError("it is another shard")
        zips: dict[BlockRange, list[Json]] = {}
        for entry in document["zips"]:
            if len(entry["segments"]) == 1:
                zips.setdefault(range_of(entry), []).append(entry)
        return [_segment(blocks, entries, path) for blocks, entries in sorted(zips.items())]

    return parsed(data, place, read)


def _segment(blocks: BlockRange, entries: list[Json], shard: str) -> PublishedSegment:
    times = (times_of(member) for entry in entries for member in entry["members"])
    return PublishedSegment(
        blocks,
        next(filter(None, times), None),
        len(entries),
        sum(entry["rows"] for entry in entries),
        sum(entry["bytes"] for entry in entries),
        shard,
    )
