"""Putting finished files into the warehouse: named by their blocks and bytes, created once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.duck import Connection
from transforms.objects import StoredFile
from transforms.scratch import scratch_folder
from transforms.stores.store import Store, asked_together, content_sha256, content_size
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.volumes import run_sources, write_index
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.data_files import ALL_TABLES, rows_sql
from transforms.warehouse.manifests.data_files import FOLDER as DATA
from transforms.warehouse.manifests.file_names import INDEX, MANIFESTS, STATE
from transforms.warehouse.manifests.manifest import About, write_manifest
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt
from transforms.warehouse.manifests.shapes import UNSTORED, Shape, Times, Volume, shapes_of

_TYPE = "application/octet-stream"


def store_new(backing: Backing, folder: str, blocks: BlockRange, path: Path) -> StoredFile:
    """Put a file of `blocks` into a folder of the warehouse, under the name of its bytes.

    It is whole and verified there before anything can name it. `path` is gone afterwards: it is the
    object, or this machine's copy of it.
    """
    sha256 = content_sha256(path)
    file = store_file(backing.store, f"{folder}/{blocks.key}.{sha256}{path.suffix}", sha256, path)
    if path.exists():
        backing.files.adopt(file, path)
        path.unlink(missing_ok=True)
    return file


def store_volume(
    backing: Backing,
    con: Connection,
    base: Snapshot,
    data: Mapping[str, Path],
    segments: Sequence[LoadedSegment],
    receipts: Sequence[Receipt],
) -> Volume:
    """Put the files of a volume, with its index file and, last, its manifest; describe it.

    `data` are the files of its rows, see `Volume.data`; `base` is the snapshot upon which it was
    built.
    """
    blocks = BlockRange(segments[0].blocks.first, segments[-1].blocks.last)
    version, shapes = max(segment.name.version for segment in segments), shapes_of(receipts)
    times = _times(con, shapes["blocks"], data["blocks"]) if "blocks" in data else None
    kind, folder = ("state", STATE) if ALL_TABLES in data else ("history", MANIFESTS)

    def put(file: tuple[str, Path]) -> StoredFile:
        return store_new(backing, file[0], blocks, file[1])

    with scratch_folder(backing.scratch) as scratch:
        folders = (STATE if table == ALL_TABLES else f"{DATA}/{table}" for table in data)
        files = [*zip(folders, data.values(), strict=True)]
        if lookups := write_index(con, scratch, run_sources(data, shapes)):
            files.append((INDEX, lookups))
        stored = [*asked_together(backing.store, put, files)]
        index = stored.pop() if lookups else None
        rows = dict(zip(data, stored, strict=True))
        volume = Volume(kind, UNSTORED, blocks, version, shapes, rows, index, times)
        path = scratch / "manifest.parquet"
        write_manifest(path, About(base.warehouse, base.number, volume), segments, receipts)
        return replace(volume, file=store_new(backing, folder, blocks, path))


def _times(con: Connection, shape: Shape, path: Path) -> Times | None:
    """The first and last time of the blocks in a data file."""
    if "vega_time" not in shape.columns:
        return None
    ((first, last),) = con.execute(
        "select epoch_us(min(vega_time)), epoch_us(max(vega_time)) "  # noqa: S608 - quoted
        f"from {rows_sql('blocks', shape.column_list(), [path])} where isfinite(vega_time)"
    ).fetchall()
    return None if first is None else (first, last)


def store_file(store: Store, key: str, sha256: str, path: Path) -> StoredFile:
    """Put a file that hashes to `sha256` at `key`; see `store_new`."""
    file = StoredFile(key, content_size(path), sha256)
    store.put_if_absent(key, path, content_type=_TYPE, sha256=sha256, immutable=True, take=True)
    return file
