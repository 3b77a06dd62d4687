"""The newest segments of an archive, for documents that tell what is new."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.archive.index import ArchiveIndex
from exporters.archive.shards import Shard, shard_path
from transforms.blocks import BlockRange
from transforms.errors import IntegrityError

_MOST_SHARDS = 8  # that many are read at most, however few segments each has


@dataclass(frozen=True, slots=True)
class PublishedSegment:
    """A segment by its single ZIPs: how many there are, and their rows and bytes together.

    `times` are those of its first and last block, empty or None where not known; `shard` is the
    path of the shard that has them.
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
    found: list[PublishedSegment] = []
    for number in sorted(index.lines, reverse=True)[:_MOST_SHARDS]:
        data = archive.read(shard_path(number))
        if data is None:
            raise IntegrityError(
                f"{archive.place(shard_path(number))} is gone: strata publish makes it again"
            )
        found += reversed(list(_segments(archive.parse_shard(number, data))))
        if len(found) >= most:
            break
    return found[:most]


def _segments(shard: Shard) -> Iterator[PublishedSegment]:
    """The segments of a shard, ascending."""
    held: dict[BlockRange, list[Entry]] = {}
    for entry in shard.entries:
        if not entry.is_window:
            held.setdefault(entry.blocks, []).append(entry)
    for blocks, entries in sorted(held.items()):
        yield PublishedSegment(
            blocks,
            next((entry.times for entry in entries if entry.times), None),
            len(entries),
            sum(entry.rows for entry in entries),
            sum(entry.bytes for entry in entries),
            shard_path(shard.number),
        )
