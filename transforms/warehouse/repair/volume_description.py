"""Volumes as they describe themselves: what is known of them where no snapshot names them.

A run of segments is described by its manifest, a current state by its own tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

from transforms.block_range import BlockRange
from transforms.duck import Connection, read_only_connection, working_connection
from transforms.errors import ConfigError, IntegrityError
from transforms.objects import ObjectInfo, StoredFile
from transforms.scratch import scratch_folder
from transforms.stores.store import Store, object_sha256
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.volume_storage import INDEX, store_new
from transforms.warehouse.load.volumes import volume_sources, write_index
from transforms.warehouse.manifests.manifest import manifest_receipts, read_about, read_manifest
from transforms.warehouse.manifests.manifest_rows import (
    Origin,
    read_origin,
    read_receipts,
    read_segments,
)
from transforms.warehouse.manifests.receipts import LoadedSegment
from transforms.warehouse.manifests.shapes import Volume, shapes_of

Advance = Callable[[int], None]
"""Called with the bytes that were just read."""

_NAME = re.compile(r"(manifests|state)/(\d+)-(\d+)\.[0-9a-f]{64}\.(?:parquet|duckdb)")


@dataclass(frozen=True, slots=True)
class FoundVolume:
    """A volume that describes itself, and what it says.

    `segments` are its segments with the SHA-256 of their ZIPs.
    """

    volume: Volume
    origin: Origin
    chain_id: str
    segments: Mapping[BlockRange, str]


def volume_blocks(key: str) -> BlockRange | None:
    """The blocks that a volume's name says; None for another file."""
    match = _NAME.fullmatch(key)
    return BlockRange(int(match[2]), int(match[3])) if match else None


def listed_volumes(store: Store, folder: str) -> Iterator[ObjectInfo]:
    """The files in a folder of volumes that have the name of one."""
    return (info for info in listed(store, folder) if volume_blocks(info.key))


def listed(store: Store, folder: str) -> Iterator[ObjectInfo]:
    """The files in a folder of the warehouse."""
    with suppress(ConfigError):  # the folder of the whole store is not there
        yield from store.list(f"{folder}/")


def describe_volume(
    backing: Backing, info: ObjectInfo, advance: Advance = lambda _: None
) -> FoundVolume:
    """Hash a manifest with its data files, or a state, and read what it says of itself.

    Raises `IntegrityError` where it is damaged or not what its name says, `FileNotFoundError` where
    it is gone by now.
    """
    file = StoredFile(info.key, info.size, info.key.split(".")[-2])
    _prove(backing, file, advance)
    describe = _described_run if info.key.startswith("manifests/") else _described_state
    volume, origin, segments = describe(backing, file)
    if volume.blocks != volume_blocks(info.key):
        raise IntegrityError(
            f"{backing.store.describe(info.key)} holds the blocks {volume.blocks}: it was renamed"
        )
    for data in volume.data.values():
        _prove(backing, data, advance)
    return FoundVolume(
        volume,
        origin,
        segments[0].name.chain_id,
        {segment.blocks: segment.sha256 for segment in segments},
    )


def _prove(backing: Backing, file: StoredFile, advance: Advance) -> None:
    """Raise `IntegrityError` where a file does not hash to what its name says."""
    digest = object_sha256(backing.store, file.key, advance)
    if digest != file.sha256:
        place = backing.store.describe(file.key)
        raise IntegrityError(
            f"{place} hashes to {digest}, its name says {file.sha256}: it is damaged"
        )


_Description = tuple[Volume, Origin, Sequence[LoadedSegment]]


def _described_run(backing: Backing, file: StoredFile) -> _Description:
    """A run of segments by its manifest; an index file that is not there is left out."""
    backing.files.bring([file])
    path = backing.files.path(file)
    about, segments = read_about(path), read_manifest(path)
    receipts = [*manifest_receipts([path])]
    if not segments or not receipts:
        raise IntegrityError(f"{backing.store.describe(file.key)} says that it holds no segments")
    blocks = BlockRange(segments[0].blocks.first, segments[-1].blocks.last)
    version = max(segment.name.version for segment in segments)
    index = about.index if about.index and backing.store.head(about.index.key) else None
    shapes = shapes_of(receipts)
    run = Volume("history", file, blocks, version, shapes, about.data, index, about.times)
    return run, about.origin, segments


def _described_state(backing: Backing, file: StoredFile) -> _Description:
    """A current state by what its file says."""
    with _opened(backing, file) as con:
        segments = read_segments(con, "strata.segments")
        receipts = read_receipts(con, "from strata.receipts", {})
        origin = read_origin(con)
    if not segments or not receipts:
        raise IntegrityError(f"{backing.store.describe(file.key)} says that it holds no segments")
    return Volume.state(file, receipts), origin, segments


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


@contextmanager
def _opened(backing: Backing, file: StoredFile) -> Iterator[Connection]:
    """A file of current state in use; that it cannot be read is an `IntegrityError`."""
    with backing.files.hold([file]):
        try:
            with read_only_connection(backing.files.path(file), threads=1) as con:
                yield con
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            place = backing.store.describe(file.key)
            raise IntegrityError(f"{place} cannot be read ({reason})") from error
