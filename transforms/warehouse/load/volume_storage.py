"""Putting finished files into the warehouse: named by their blocks and bytes, created once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.objects import StoredFile
from transforms.scratch import scratch_folder
from transforms.stores.store import Store, asked_together, content_sha256, content_size
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.volumes import RunFiles
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.data_files import ALL_TABLES
from transforms.warehouse.manifests.data_files import FOLDER as DATA
from transforms.warehouse.manifests.manifest import About, volume_of, write_manifest
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt
from transforms.warehouse.manifests.shapes import Volume

INDEX = "index"
STATE = "state"
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
    run: RunFiles,
    base: Snapshot,
    segments: Sequence[LoadedSegment],
    receipts: Sequence[Receipt],
) -> Volume:
    """Put the files of a volume, the manifest last, which is written here; describe it.

    `base` is the snapshot upon which it was built.
    """
    blocks = BlockRange(segments[0].blocks.first, segments[-1].blocks.last)
    folders = [STATE if table == ALL_TABLES else f"{DATA}/{table}" for table in run.data]
    files = [*zip(folders, run.data.values(), strict=True)]
    if run.index:
        files.append((INDEX, run.index))

    def put(file: tuple[str, Path]) -> StoredFile:
        return store_new(backing, file[0], blocks, file[1])

    stored = [*asked_together(backing.store, put, files)]
    index = stored.pop() if run.index else None
    data = dict(zip(run.data, stored, strict=True))
    about = About(base.warehouse, base.number, data, index, run.times)
    with scratch_folder(backing.scratch) as scratch:
        path = scratch / "manifest.parquet"
        write_manifest(path, about, segments, receipts)
        manifest = store_new(backing, STATE if ALL_TABLES in data else "manifests", blocks, path)
    return volume_of(manifest, about, segments, receipts)


def store_file(store: Store, key: str, sha256: str, path: Path) -> StoredFile:
    """Put a file that hashes to `sha256` at `key`; see `store_new`."""
    file = StoredFile(key, content_size(path), sha256)
    store.put_if_absent(key, path, content_type=_TYPE, sha256=sha256, immutable=True, take=True)
    return file
