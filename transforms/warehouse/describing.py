"""Volumes as they describe themselves: what is known of them where no document names them."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import duckdb

from transforms.block_range import BlockRange
from transforms.duck import Connection, read_only_connection
from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo, StoredFile
from transforms.scratch import scratch_folder
from transforms.stores.store import content_sha256, object_sha256
from transforms.warehouse.backing import Backing
from transforms.warehouse.record import About, write_record
from transforms.warehouse.shapes import Volume
from transforms.warehouse.storing import store_again
from transforms.warehouse.volume_records import (
    Origin,
    read_origin,
    read_receipts,
    read_segments,
    read_times,
)

Advance = Callable[[int], None]
"""Called with the bytes that were just read."""

_log = logging.getLogger(__name__)

_FOLDERS = {"volumes": "history", "state": "state"}
_NAME = re.compile(r"(volumes|state)/(\d+)-(\d+)\.([0-9a-f]{64})\.duckdb")
_LINE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class FoundVolume:
    """A volume that describes itself: `volume` without its record, and what it says.

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
    """Hash a volume and read what it says of itself.

    Raises `IntegrityError` where it is damaged or not what its name says, `FileNotFoundError` where
    it is gone by now.
    """
    sha256 = info.key.split(".")[-2]
    if backing.store.path(info.key) is not None:
        digest = object_sha256(backing.store, info.key, advance)
        if sha256 != digest:
            place = backing.store.describe(info.key)
            raise IntegrityError(
                f"{place} hashes to {digest}, its name says {sha256}: it is damaged"
            )
        advance = _unreported
    file = StoredFile(info.key, info.size, sha256)
    with _opened(backing, file, advance) as con:
        segments = read_segments(con, "strata.segments")
        receipts = read_receipts(con, "from strata.receipts", {})
        origin, times = read_origin(con), read_times(con)
    if not segments or not receipts:
        raise IntegrityError(f"{backing.store.describe(info.key)} says that it holds no segments")
    volume = Volume.of(file, receipts, is_sorted=origin.is_sorted, times=times)
    if volume.blocks != volume_blocks(info.key):
        raise IntegrityError(
            f"{backing.store.describe(info.key)} holds the blocks {volume.blocks}: it was renamed"
        )
    return FoundVolume(
        replace(volume, kind=volume_kind(info.key)),
        origin,
        segments[0].name.chain_id,
        {segment.blocks: segment.sha256 for segment in segments},
    )


def with_record(backing: Backing, volume: Volume) -> Volume:
    """A volume of history with its record, which is made from the volume, damaged or not there."""
    with (
        scratch_folder(backing.scratch) as scratch,
        _opened(backing, volume.file, _unreported) as con,
    ):
        about = About(volume.file, read_origin(con))
        segments = read_segments(con, "strata.segments")
        path = scratch / "record.parquet"
        write_record(path, about, segments, read_receipts(con, "from strata.receipts", {}))
        sha256 = content_sha256(path)
        key = f"records/{volume.blocks.key}.{sha256}.parquet"
        return replace(volume, record=store_again(backing.store, key, sha256, path))


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


def _unreported(_: int) -> None:
    """These bytes were counted before."""


@contextmanager
def _opened(backing: Backing, file: StoredFile, advance: Advance) -> Iterator[Connection]:
    """A volume in use; that it cannot be read is an `IntegrityError`."""
    with backing.files.hold([file], advance):
        try:
            with read_only_connection(backing.files.path(file), threads=1) as con:
                yield con
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            place = backing.store.describe(file.key)
            raise IntegrityError(f"{place} cannot be read as a volume ({reason})") from error
