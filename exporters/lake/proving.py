"""Proving files that the lake holds: fetched, hashed, rendered, held against receipts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from exporters.lake.lake_files import Lake
from exporters.lake.tables import HeldFile, Version
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.lake.parquet_files import opened_file
from transforms.lake.parquet_rows import LakeRows
from transforms.scratch import scratch_folder
from transforms.stores.store import content_sha256
from transforms.warehouse.manifests.receipts import Receipt


def prove_held(
    version: Version, rows: LakeRows, segments: Sequence[BlockRange], scratch: Path
) -> None:
    """Prove that a table renders segments (ascending, held whole) to what their receipts say.

    Raises `IntegrityError` where it does not.
    """
    segment_set = frozenset(segments)
    for file in version.files:
        receipts = [r for r in rows.of(version.table, file.blocks) if r.blocks in segment_set]
        if receipts:
            _prove_file(version, file, receipts, scratch)


def _prove_file(
    version: Version, lake_file: HeldFile, receipts: Sequence[Receipt], scratch: Path
) -> None:
    """Prove a file by its name and these receipts, which may be of some of its segments."""
    lake, table = version.lake, version.table
    place = lake.place(table, lake_file.file.name)
    with scratch_folder(scratch) as folder:
        copy = folder / "file.parquet"
        fetched(lake, table, lake_file, copy)
        with opened_file(copy, folder, receipts, lake.memory_mb) as file:
            for receipt, digest in file.digests():
                if digest != receipt.sha256:
                    raise IntegrityError(
                        f"{place} renders segment {receipt.blocks} to SHA-256 {digest}, what was "
                        f"loaded has {receipt.sha256}: strata lake publish --replace REASON "
                        f"--table {table} --blocks {receipt.blocks} puts the loaded rows there"
                    )


def fetched(lake: Lake, table: str, lake_file: HeldFile, copy: Path) -> None:
    """Fetch a file. Raises `IntegrityError` where it is gone, or not what its name says."""
    place = lake.place(table, lake_file.file.name)
    try:
        lake.archive.store.fetch(lake.key(table, lake_file.file.name), copy)
    except FileNotFoundError as error:
        raise IntegrityError(
            f"{place} is gone, and its table names it: strata lake verify says what mends it"
        ) from error
    sha256 = content_sha256(copy)
    if not lake_file.name.is_of(sha256):
        raise IntegrityError(
            f"{place} hashes to {sha256}, which is not what its name says: strata lake verify says "
            "what mends it"
        )
