"""Volumes as they describe themselves: what is known of them where no snapshot names them.

A run of segments is described by its manifest, a current state by its own tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

from transforms.block_range import BlockRange
from transforms.duck import read_only_connection, working_connection
from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo, StoredFile
from transforms.scratch import scratch_folder
from transforms.stores.store import object_sha256
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.volume_storage import INDEX, store_new
from transforms.warehouse.load.volumes import volume_sources, write_index
from transforms.warehouse.manifests.manifest import (
    About,
    manifest_receipts,
    read_about,
    read_manifest,
)
from transforms.warehouse.manifests.manifest_rows import (
    Origin,
    read_origin,
    read_receipts,
    read_segments,
)
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt
from transforms.warehouse.manifests.shapes import Volume, shapes_of
from transforms.warehouse.repair.older_log import listed, volume_blocks

Advance = Callable[[int], None]
"""Called with the bytes that were just read."""


@dataclass(frozen=True, slots=True)
class VolumeDescription:
    """A volume that describes itself, and what it says.

    `segments` are its segments with the SHA-256 of their ZIPs.
    """

    volume: Volume
    origin: Origin
    chain_id: str
    segments: Mapping[BlockRange, str]


def describe_volume(
    backing: Backing, info: ObjectInfo, advance: Advance = lambda _: None
) -> VolumeDescription:
    """Hash a manifest with its data files, or a state, and read what it says of itself.

    Raises `IntegrityError` where it is damaged or not what its name says, `FileNotFoundError` where
    it is gone by now.
    """
    file = StoredFile(info.key, info.size, info.key.split(".")[-2])
    place = backing.store.describe(file.key)
    _prove(backing, file, advance)
    backing.files.bring([file])
    is_state = info.key.startswith("state/")
    segments, receipts, about = _state(backing, file) if is_state else _run(backing, file)
    if not segments or not receipts:
        raise IntegrityError(f"{place} says that it holds no segments")
    blocks = BlockRange(segments[0].blocks.first, segments[-1].blocks.last)
    if blocks != volume_blocks(info.key):
        raise IntegrityError(f"{place} holds the blocks {blocks}: it was renamed")
    for data in about.data.values():
        _prove(backing, data, advance)
    kind = "state" if is_state else "history"
    version = max(segment.name.version for segment in segments)
    index = about.index if about.index and backing.store.head(about.index.key) else None
    shapes = shapes_of(receipts)
    volume = Volume(kind, file, blocks, version, shapes, about.data, index, about.times)
    hashes = {segment.blocks: segment.sha256 for segment in segments}
    return VolumeDescription(volume, about.origin, segments[0].name.chain_id, hashes)


def _prove(backing: Backing, file: StoredFile, advance: Advance) -> None:
    """Raise `IntegrityError` where a file does not hash to what its name says."""
    digest = object_sha256(backing.store, file.key, advance)
    if digest != file.sha256:
        place = backing.store.describe(file.key)
        raise IntegrityError(
            f"{place} hashes to {digest}, its name says {file.sha256}: it is damaged"
        )


_Records = tuple[Sequence[LoadedSegment], Sequence[Receipt], About]


def _run(backing: Backing, file: StoredFile) -> _Records:
    """What a manifest says."""
    path = backing.files.path(file)
    return read_manifest(path), [*manifest_receipts([path])], read_about(path)


def _state(backing: Backing, file: StoredFile) -> _Records:
    """What a file of current state says; that it cannot be read is an `IntegrityError`."""
    try:
        with (
            backing.files.hold([file]),
            read_only_connection(backing.files.path(file), threads=1) as con,
        ):
            receipts = read_receipts(con, "from strata.receipts", {})
            return read_segments(con, "strata.segments"), receipts, About(read_origin(con))
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        place = backing.store.describe(file.key)
        raise IntegrityError(f"{place} cannot be read ({reason})") from error


def with_index(backing: Backing, volume: Volume) -> Volume:
    """A volume with its index file, which is made from its tables."""
    with (
        backing.files.hold(volume.table_files),
        scratch_folder(backing.scratch) as scratch,
        working_connection(scratch, memory_limit=backing.rendering_limit) as con,
        volume_sources(con, backing.files, volume) as sources,
    ):
        path = write_index(con, scratch, sources)
        if path is None:
            return replace(volume, index=None)
        return replace(
            volume, index=store_new(backing.store, backing.files, INDEX, volume.blocks, path)
        )


def newest_captures(backing: Backing) -> StoredFile | None:
    """The sound file of spam captures that was made of the most files; None without one.

    Each was made of all that its older one was; what lacks is loaded again from its source.
    """
    best: tuple[int, StoredFile] | None = None
    for info in listed(backing.store, "spam"):
        sha256 = Path(info.key).stem
        if object_sha256(backing.store, info.key) != sha256:
            continue
        file = StoredFile(info.key, info.size, sha256)
        backing.files.bring([file])
        with read_only_connection(backing.files.path(file), threads=1) as con:
            (count,) = con.execute("select count(*) from files").fetchall()[0]
        if best is None or count > best[0]:
            best = count, file
    return best[1] if best else None
