"""Volumes as they describe themselves: what is known of them where no document names them.

A run of segments is described by its manifest, a current state by its own tables.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import duckdb

from transforms.block_range import BlockRange
from transforms.duck import Connection, read_only_connection, working_connection
from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo, StoredFile
from transforms.scratch import scratch_folder
from transforms.stores.store import object_sha256
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.volume_storage import store_new
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

_log = logging.getLogger(__name__)

_FOLDERS = {"manifests": "history", "state": "state"}
_NAME = re.compile(r"(manifests|state)/(\d+)-(\d+)\.[0-9a-f]{64}\.(?:parquet|duckdb)")
_LINE_SECONDS = 10.0


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


def volume_kind(key: str) -> str:
    """`history` or `state`, by the folder of the store."""
    return _FOLDERS[key.partition("/")[0]]


def describe_volume(backing: Backing, info: ObjectInfo, advance: Advance) -> FoundVolume:
    """Hash a manifest with its data files, or a state, and read what it says of itself.

    Raises `IntegrityError` where it is damaged or not what its name says, `FileNotFoundError` where
    it is gone by now.
    """
    file = StoredFile(info.key, info.size, info.key.split(".")[-2])
    _prove(backing, file, advance)
    describe = _described_run if volume_kind(info.key) == "history" else _described_state
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
            volume, index=store_new(backing.store, backing.files, "index", volume.blocks, path)
        )


def logged_progress(what: str, total: int) -> Advance:
    """Log how many of `total` bytes were read, a line now and then."""
    byte_count, last = 0, time.monotonic()

    def advance(size: int) -> None:
        nonlocal byte_count, last
        byte_count += size
        if time.monotonic() - last >= _LINE_SECONDS:
            last = time.monotonic()
            _log.warning("%s: %.1f of %.1f GB read", what, byte_count / 1e9, total / 1e9)

    return advance


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
