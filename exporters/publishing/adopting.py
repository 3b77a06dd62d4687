"""Entries of ZIPs that lie in the archive and that no entry names, from the ZIPs themselves.

A publisher that died left them, or the shard that named them is lost or damaged. Nothing but the
ZIPs and the hash files beside them is needed, and an `Origin`: what the warehouse knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry, SegmentSource
from exporters.archive.shards import shard_blocks
from exporters.publishing.comparing import Unnamed
from exporters.publishing.request import PublishRequest, proven_entry
from exporters.zip_names import parse_csv_name
from exporters.zips.container import Member
from exporters.zips.reader import read_csv, read_members
from exporters.zips.sources import LocalSource
from transforms.block_range import BlockRange, contiguous_runs
from transforms.errors import IntegrityError, SegmentError
from transforms.scratch import scratch_folder
from transforms.stores.store import content_sha256
from transforms.tables.dialect import header_names
from transforms.tables.registry import TableSchema, schema_of

Origin = Callable[[BlockRange], Sequence[SegmentSource]]
"""Gives the segments that make up exactly these blocks; none where they are not all known."""


def neighbours(archive: Archive, unnamed: Iterable[Unnamed]) -> Iterator[Entry]:
    """Yield the entries of the shards that these ZIPs reach into, where they can be read."""
    reached = [item.name.blocks for item in unnamed]
    try:
        numbers = archive.index().shards
    except IntegrityError:
        return  # it is made again, too
    for number in numbers:
        blocks = shard_blocks(number)
        if any(blocks.overlaps(item) for item in reached):
            try:
                yield from archive.shard(number).entries
            except IntegrityError:
                continue  # it is made again from its own ZIPs


def adopt(
    archive: Archive,
    unnamed: Iterable[Unnamed],
    entries: Iterable[Entry],
    origin: Origin,
    scratch: Path | None = None,
) -> Iterator[Entry | IntegrityError]:
    """Yield an entry for each ZIP, or why there can be none; each is read as a whole.

    Where the origin does not know its segments, `entries` and those before it may. Copies lie in
    `scratch`.
    """
    sources = {segment.blocks: segment for entry in entries for segment in entry.segments}
    # Bundles after what they join.
    for stray in sorted(
        unnamed, key=lambda stray: stray.name.blocks.last - stray.name.blocks.first
    ):
        try:
            segments = origin(stray.name.blocks) or _tiles(stray.name.blocks, sources)
            yield _adopted(archive, stray, segments, scratch)
        except (IntegrityError, SegmentError) as error:
            place = archive.place(stray.path)
            yield IntegrityError(f"{place} cannot be taken into the index: {error}")
        else:
            sources |= {segment.blocks: segment for segment in segments}


def _tiles(whole: BlockRange, tiles: Mapping[BlockRange, SegmentSource]) -> Sequence[SegmentSource]:
    """The segments that make up `whole`. Raises `IntegrityError` where not all are known."""
    inside = sorted(run for run in tiles if whole.first <= run.first and run.last <= whole.last)
    if list(contiguous_runs(inside)) != [whole]:
        raise IntegrityError(
            f"not all segments of blocks {whole} are loaded or in the index, so what it was made "
            "of is not known: load them, then run strata publish"
        )
    return [tiles[run] for run in inside]


def _adopted(
    archive: Archive,
    stray: Unnamed,
    segments: Sequence[SegmentSource],
    scratch: Path | None,
) -> Entry:
    with scratch_folder(scratch) as folder:
        copy = folder / stray.path.rpartition("/")[2]
        archive.store.fetch(archive.key(stray.path), copy)
        _check_hash_file(archive, stray, copy)
        source = LocalSource.open(copy)
        members = read_members(source)
        request = PublishRequest(
            stray.name.table,
            copy,
            tuple(segments),
            tuple(_schema(source, member) for member in members),
            sum(member.rows for member in members),
        )
        return proven_entry(request, archive.chain_id, copy)


def _check_hash_file(archive: Archive, stray: Unnamed, copy: Path) -> None:
    """Hold a ZIP against the hash file beside it, if there is one."""
    stated = archive.read(f"{stray.path}.sha256")
    sha256 = content_sha256(copy)
    if stated is not None and stated.split(b" ")[0] != sha256.encode():
        raise IntegrityError(
            f"it hashes to {sha256}, the hash file beside it says otherwise: put the right one of "
            "the two back, or delete both and publish again"
        )


def _schema(source: LocalSource, member: Member) -> TableSchema:
    """The columns of a CSV by its first line, typed as those of a segment are."""
    name = parse_csv_name(member.name)
    text = b""
    for block in read_csv(source, member):
        text += block
        if len(text) >= member.header.plain:
            break
    return schema_of(name.table, name.version, header_names(text[: member.header.plain]))
