"""The catalog: tiny DuckDB files of views over the volumes, in numbered generations.

`current.duckdb` is a link to the newest generation. A generation never changes, so a reader keeps
what it opened; a new one is written beside it and the link is swapped at once, under a lock.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from transforms.blocks import BlockRange
from transforms.duck import attached, quote_text, read_only_connection, working_connection
from transforms.errors import ConfigError
from transforms.files import commit_file, swap_link
from transforms.scratch import exclusive, scratch_folder
from transforms.warehouse.catalog_views import create_views
from transforms.warehouse.receipts import LoadedSegment
from transforms.warehouse.records import read_segments, segment_table
from transforms.warehouse.shapes import Volume, parse_shapes

CURRENT = "current.duckdb"
_FOLDER = "catalog"
_VOLUMES = pa.schema(
    [
        ("kind", pa.string()),
        ("file", pa.string()),
        ("first_block", pa.int64()),
        ("last_block", pa.int64()),
        ("schema_version", pa.int32()),
        ("shapes", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Catalog:
    """One generation: the volumes it names and the segments they hold, ascending by block."""

    root: Path
    generation: int
    volumes: tuple[Volume, ...]
    segments: Mapping[BlockRange, LoadedSegment]

    @property
    def chain_id(self) -> str:
        """The chain that the warehouse holds; empty where nothing is loaded."""
        return next((segment.name.chain_id for segment in self.segments.values()), "")

    @property
    def path(self) -> Path:
        """The generation's own file."""
        return generation_path(self.root, self.generation)

    def history(self) -> list[Volume]:
        """The volumes of history, ascending by block."""
        return [volume for volume in self.volumes if volume.kind == "history"]

    def states(self) -> list[Volume]:
        """The volumes of current-state tables, ascending by block: one per schema version."""
        return [volume for volume in self.volumes if volume.kind == "state"]

    def volume_of(self, blocks: BlockRange) -> Volume | None:
        """The volume that holds a segment's history."""
        for volume in self.history():
            if volume.blocks.first <= blocks.first and blocks.last <= volume.blocks.last:
                return volume
        return None

    def intact_segments(self) -> dict[BlockRange, LoadedSegment]:
        """The segments whose volumes are all there; the others must be loaded again."""
        lost = [v.blocks for v in self.volumes if not (self.root / v.file).exists()]
        return _outside(self.segments, lost)

    def without_lost_volumes(self) -> Catalog:
        """The generation without the volumes that are gone and the history they held."""
        there = tuple(v for v in self.volumes if (self.root / v.file).exists())
        lost = [v.blocks for v in self.history() if v not in there]
        return Catalog(self.root, self.generation, there, _outside(self.segments, lost))


def _outside(
    segments: Mapping[BlockRange, LoadedSegment], lost: Sequence[BlockRange]
) -> dict[BlockRange, LoadedSegment]:
    return {
        blocks: segment
        for blocks, segment in segments.items()
        if not any(blocks.overlaps(gone) for gone in lost)
    }


def generation_path(root: Path, generation: int) -> Path:
    """Where a generation's file lies."""
    return root / _FOLDER / f"{generation:08d}.duckdb"


def current_generation(root: Path) -> Path:
    """The file of the newest generation. Raises `ConfigError` where nothing was ever loaded."""
    current = root / CURRENT
    if not current.exists():
        raise ConfigError(f"{root} holds no catalog yet: load segments first")
    return current.resolve()


def read_catalog(root: Path) -> Catalog | None:
    """Read the newest generation; None where nothing was ever loaded."""
    current = root / CURRENT
    if not current.exists():
        return None
    path = current.resolve()
    facts = path.stat()
    return _read_generation(root, path, facts.st_ino, facts.st_mtime_ns)


@lru_cache(maxsize=2)
def _read_generation(root: Path, path: Path, _inode: int, _mtime: int) -> Catalog:
    """Read a generation, once: it never changes, unless the whole warehouse is made anew."""
    with read_only_connection(path, threads=1) as con:
        volumes = con.sql("from strata.volumes order by kind, first_block").to_arrow_table()
        segments = read_segments(con, "strata.segments")
    return Catalog(
        root,
        int(path.stem),
        tuple(
            Volume(
                row["kind"],
                row["file"],
                BlockRange(row["first_block"], row["last_block"]),
                row["schema_version"],
                parse_shapes(row["shapes"]),
            )
            for row in volumes.to_pylist()
        ),
        {segment.blocks: segment for segment in segments},
    )


Change = Callable[[Catalog], Catalog | None]
"""From the newest generation to the next one's content (its number is ignored); None: no change."""


def advance(root: Path, change: Change) -> Catalog:
    """Make the next generation from the newest one, one writer at a time, and point to it.

    Raises `BusyError` where another writer holds the lock for too long.
    """
    with exclusive(root / _FOLDER / ".lock"):
        newest = read_catalog(root) or Catalog(root, 0, (), {})
        wanted = change(newest)
        if wanted is None:
            return newest
        following = Catalog(root, newest.generation + 1, wanted.volumes, wanted.segments)
        with scratch_folder(root / "scratch") as scratch:
            finished = scratch / "catalog.duckdb"
            _write(finished, following)
            commit_file(finished, following.path)
        _retire(newest, following)
        swap_link(root / CURRENT, following.path)
        return following


def _retire(newest: Catalog, following: Catalog) -> None:
    """Stamp what the next generation no longer names: its grace period starts now."""
    kept = {volume.file for volume in following.volumes}
    dropped = [newest.root / v.file for v in newest.volumes if v.file not in kept]
    for path in [*dropped, newest.path]:
        with contextlib.suppress(FileNotFoundError):
            os.utime(path)


def _write(path: Path, catalog: Catalog) -> None:
    volumes = pa.Table.from_pylist([_volume_row(v) for v in catalog.volumes], schema=_VOLUMES)
    with (
        working_connection(path.parent) as con,
        attached(con, path, "fresh", "(block_size 16384)"),
    ):
        con.execute("use fresh")
        con.execute("begin")
        con.execute("create schema strata")
        con.register("records", volumes)
        con.execute("create table strata.volumes as from records")
        con.register("records", segment_table(list(catalog.segments.values())))
        con.execute("create table strata.segments as from records order by first_block")
        con.unregister("records")
        con.execute(
            f"create table strata.generation as select {catalog.generation} as generation, "
            f"{quote_text(catalog.chain_id)} as chain_id, {quote_text(catalog.root)} as warehouse"
        )
        create_views(con, catalog.root, catalog.history(), catalog.states())
        con.execute("commit")
        con.execute("use memory")


def _volume_row(volume: Volume) -> dict[str, object]:
    return {
        "kind": volume.kind,
        "file": volume.file,
        "first_block": volume.blocks.first,
        "last_block": volume.blocks.last,
        "schema_version": volume.version,
        "shapes": volume.dump_shapes(),
    }
