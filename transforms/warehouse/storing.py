"""Putting finished files into the warehouse: named by their blocks and bytes, created once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.duck import read_only_connection
from transforms.errors import ConflictError
from transforms.objects import StoredFile
from transforms.stores.store import Store, content_sha256, content_size
from transforms.warehouse.local_files import LocalFiles
from transforms.warehouse.receipts import LoadedSegment, Receipt
from transforms.warehouse.record import About, write_record
from transforms.warehouse.shapes import Volume
from transforms.warehouse.volume_records import Origin, read_times

_TYPES = {
    ".duckdb": "application/vnd.duckdb",
    ".parquet": "application/vnd.apache.parquet",
    ".zip": "application/zip",
}


def store_volume(
    store: Store, files: LocalFiles, folder: str, blocks: BlockRange, path: Path
) -> StoredFile:
    """Put a file of `blocks` into a folder of the warehouse, under the name of its bytes.

    It is whole and verified there before anything can name it. `path` is gone afterwards: it is the
    object, or this machine's copy of it.
    """
    sha256 = content_sha256(path)
    key = f"{folder}/{blocks.key}.{sha256}{path.suffix}"
    file = store_file(store, key, sha256, path)
    if path.exists():
        files.adopt(file, path)
        path.unlink(missing_ok=True)
    return file


def store_history(
    store: Store,
    files: LocalFiles,
    path: Path,
    origin: Origin,
    segments: Sequence[LoadedSegment],
    receipts: Sequence[Receipt],
) -> Volume:
    """Put a volume of history, and its record, which is written beside `path`; describe it."""
    blocks = BlockRange(segments[0].blocks.first, segments[-1].blocks.last)
    with read_only_connection(path, threads=1) as con:
        times = read_times(con)
    volume = store_volume(store, files, "volumes", blocks, path)
    record = path.with_suffix(".parquet")
    write_record(record, About(volume, origin), segments, receipts)
    described = store_volume(store, files, "records", blocks, record)
    return Volume.of(volume, receipts, described, is_sorted=origin.is_sorted, times=times)


def store_again(store: Store, key: str, sha256: str, path: Path) -> StoredFile:
    """Put a file as `store_file` does, also where other bytes, damaged ones, have its name.

    Raises `BusyError` where another process does the same at this moment.
    """
    try:
        return store_file(store, key, sha256, path)
    except ConflictError:
        info = store.head(key)
        store.put_if_match(
            key, path, info.version if info else None, _TYPES[path.suffix], sha256=sha256
        )
        return StoredFile(key, content_size(path), sha256)


def store_file(store: Store, key: str, sha256: str, path: Path) -> StoredFile:
    """Put a file that hashes to `sha256` at `key`; see `store_volume`."""
    file = StoredFile(key, content_size(path), sha256)
    store.put_if_absent(
        key, path, content_type=_TYPES[path.suffix], sha256=sha256, immutable=True, take=True
    )
    return file
