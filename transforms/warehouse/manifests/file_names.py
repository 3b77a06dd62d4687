"""What lies in a warehouse, and what lacks, by the names of files: blocks, and hashes of bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

from transforms.block_range import BlockRange
from transforms.errors import SegmentError
from transforms.objects import ObjectInfo, StoredFile
from transforms.stores.store import Store, asked_together, folder_infos

MANIFESTS, STATE, INDEX = "manifests", "state", "index"
"""Folders of the warehouse."""

MISSING = "is missing"
"""What is wrong with a file that is not there."""

_BLOCKS = re.compile(r"[a-z0-9_/]+/(\d+)-(\d+)\.\w+\.(?:parquet|duckdb|sqlite)")


def named_file(key: str, size: int) -> StoredFile:
    """A file of the warehouse: its SHA-256 stands in its name, before the suffix."""
    stem = key.rpartition("/")[2].rpartition(".")[0]
    return StoredFile(key, size, stem.rpartition(".")[2])


def blocks_of(key: str) -> BlockRange | None:
    """The blocks that a file's name says; None for another file."""
    match = _BLOCKS.match(key)
    with suppress(SegmentError):  # it ends before it begins
        return BlockRange(int(match[1]), int(match[2])) if match else None
    return None


def is_held(key: str, runs: Iterable[BlockRange]) -> bool:
    """Whether one of the runs has all the blocks that a file's name says."""
    blocks = blocks_of(key)
    return blocks is not None and any(run.holds(blocks) for run in runs)


def listed(store: Store, folders: Sequence[str]) -> dict[str, list[ObjectInfo]]:
    """What lies in folders of a warehouse, which are listed side by side; perhaps in none."""
    infos = asked_together(store, lambda name: [*folder_infos(store, name)], folders)
    return dict(zip(folders, infos, strict=True))


def absent_files(store: Store, files: Iterable[StoredFile]) -> dict[StoredFile, str]:
    """The files that are not there, or not with all their bytes, with what is wrong.

    A listing is not believed: what it lacks is asked for by name. A store that cannot be reached
    raises, and nothing counts as lost.
    """
    targets = tuple(files)
    listing = listed(store, sorted({file.key.partition("/")[0] for file in targets}))
    sizes = {info.key: info.size for infos in listing.values() for info in infos}
    pairs = ((file, _absence(store, file)) for file in targets if sizes.get(file.key) != file.size)
    return {file: problem for file, problem in pairs if problem}


def _absence(store: Store, file: StoredFile) -> str:
    info = store.head(file.key)
    if info is None:
        return MISSING
    return "" if info.size == file.size else f"has {info.size} bytes, not {file.size}"
