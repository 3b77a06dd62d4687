"""Compaction: neighbouring volumes of similar size become one, so that few files answer a look-up.

Merging is size-tiered: every row is rewritten once per tier, and any number of segments ends up in
a few dozen volumes. Rows that were loaded, and sorted, in parts are sorted as a whole. The merged
volume is proven against the receipts before the catalog names it; the old ones stay for the grace
period, for readers of older generations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from transforms.duck import Connection, attached, quote_name, quote_text, working_connection
from transforms.errors import IntegrityError
from transforms.lookups.lookup_tables import write_lookups
from transforms.scratch import scratch_folder
from transforms.warehouse.backing import Backing
from transforms.warehouse.document import Document
from transforms.warehouse.log import Log
from transforms.warehouse.receipts import LoadedSegment, Receipt
from transforms.warehouse.records import Origin, read_receipts, read_segments, write_records
from transforms.warehouse.rendering import volume_digests
from transforms.warehouse.shapes import Shape, Volume
from transforms.warehouse.storing import store_history
from transforms.warehouse.table_load import SORT_KEYS
from transforms.warehouse.volumes import LoadSettings, create_table_sql

FAN = 8
"""How many neighbours of one tier make a merge worth its cost."""

# More files attached at once cost memory; what is left merges in the next round.
_MOST_AT_ONCE = 64

MAX_VOLUME_BYTES = 4 * 2**30
"""A volume of this size on disk is not merged any further."""

_TIER_BYTES = 2**20
# Rows that are stored together in the tables that servers look rows up in: a look-up has to unpack
# what they have in common. DuckDB's own 122,880 take a tenth less room and nearly twice as long.
_LOOKUP_GROUP_ROWS = 24_576
# What is smaller was loaded, and sorted, at once.
_UNSORTED_BYTES = 16 * 2**20


@dataclass(slots=True)
class CompactionReport:
    """Which volumes became which: (new file, old files), keys in the warehouse."""

    merged: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)


def tier(size: int) -> int:
    """The size class of a volume of `size` bytes: each is `FAN` times as large as the one below."""
    result = 0
    while size > _TIER_BYTES * FAN**result:
        result += 1
    return result


def plan_merges(
    volumes: Sequence[Volume], size_of: Callable[[Volume], int], fan: int = FAN
) -> Iterator[list[Volume]]:
    """The runs of neighbours to merge now, of ascending history volumes; smallest tiers first.

    A run is worth it from `fan` volumes on; `size_of` gives a volume's bytes on disk. Where no run
    is, large volumes as they were loaded are runs of one: their rows are sorted only in parts.
    """
    sizes = {volume.key: size_of(volume) for volume in volumes}
    for highest in sorted({tier(size) for size in sizes.values()}):
        merges = [run for run in _runs(volumes, sizes, highest) if len(run) >= fan]
        if merges:
            yield from (run[:_MOST_AT_ONCE] for run in merges)
            return
    for volume in volumes:
        if sizes[volume.key] > _UNSORTED_BYTES and not volume.is_sorted:
            yield [volume]


def _runs(volumes: Sequence[Volume], sizes: dict[str, int], highest: int) -> Iterator[list[Volume]]:
    """Longest runs of contiguous volumes up to a tier whose sizes sum to no more than the bound."""
    run: list[Volume] = []
    total = 0
    for volume in volumes:
        size = sizes[volume.key]
        small = tier(size) <= highest and size < MAX_VOLUME_BYTES
        joins = not run or run[-1].blocks.joins(volume.blocks)
        if run and not (small and joins and total + size <= MAX_VOLUME_BYTES):
            yield run
            run, total = [], 0
        if small:
            run.append(volume)
            total += size
    if run:
        yield run


def compact(backing: Backing, settings: LoadSettings, fan: int = FAN) -> CompactionReport:
    """Merge until nothing is worth merging. May be killed and run again, beside loads and readers.

    Raises `IntegrityError` where a merged volume does not render to the bytes of its receipts; the
    old volumes then stay as they are.
    """
    report = CompactionReport()
    while document := backing.log.newest():
        lost = backing.catalog(document).lost
        present = [volume for volume in document.history() if volume not in lost]
        merges = list(plan_merges(present, lambda volume: volume.size, fan))
        if not merges:
            break
        for volumes in merges:
            with scratch_folder(backing.scratch) as scratch:
                merged = _merge(backing, scratch, volumes, document, settings)
            old = {volume.key for volume in volumes}
            if not _replace(backing.log, old, merged):
                return report  # another process compacts too: it goes on
            report.merged.append((merged.key, tuple(sorted(old))))
    return report


def _replace(log: Log, old: set[str], merged: Volume) -> bool:
    """Name the merged volume instead of the old ones, if all of them are still named."""

    def change(newest: Document) -> Document | None:
        kept = [volume for volume in newest.volumes if volume.key not in old]
        if len(kept) + len(old) != len(newest.volumes):
            return None
        return newest.with_volumes([*kept, merged])

    return any(volume.key == merged.key for volume in log.commit(change).volumes)


def _merge(
    backing: Backing,
    scratch: Path,
    volumes: Sequence[Volume],
    document: Document,
    settings: LoadSettings,
) -> Volume:
    """Write the merged volume and prove it; returns it as a document will list it."""
    path = scratch / "merged.duckdb"
    with (
        backing.files.hold([volume.file for volume in volumes]),
        working_connection(
            scratch, threads=settings.threads, memory_limit=settings.memory_limit
        ) as con,
    ):
        for number, volume in enumerate(volumes):
            file = quote_text(backing.files.path(volume.file))
            con.execute(f"attach {file} as old{number} (read_only)")
        origin = Origin(document.warehouse, document.generation)
        segments, receipts = _write(con, path, origin, volumes)
    for receipt, digest in volume_digests(path, scratch):
        if digest != receipt.sha256:
            raise IntegrityError(
                f"merged, table {receipt.table} of segment {receipt.blocks} renders to SHA-256 "
                f"{digest}, its receipt says {receipt.sha256}: the old volumes stay"
            )
    return store_history(backing.store, backing.files, path, segments, receipts, is_sorted=True)


def _write(
    con: Connection, path: Path, origin: Origin, volumes: Sequence[Volume]
) -> tuple[list[LoadedSegment], list[Receipt]]:
    """Write all that the old volumes hold to a new file; returns what it holds."""
    olds = [f"old{number}.strata" for number in range(len(volumes))]
    segments = [segment for old in olds for segment in read_segments(con, f"{old}.segments")]
    receipts = [
        receipt for old in olds for receipt in read_receipts(con, f"from {old}.receipts", {})
    ]
    tables = {table for volume in volumes for table in volume.shapes}
    with attached(con, path, "volume"):
        write_records(con, "volume", origin, segments, receipts)
        for table in sorted(tables - SORT_KEYS.keys()):
            _merge_table(con, table, volumes)
    with attached(con, path, "volume", f"(row_group_size {_LOOKUP_GROUP_ROWS})"):
        for table in sorted(tables & SORT_KEYS.keys()):
            _merge_table(con, table, volumes)
        write_lookups(con, "volume")
    return segments, receipts


def _merge_table(con: Connection, table: str, volumes: Sequence[Volume]) -> None:
    shape = Shape()
    sources = []
    for number, volume in enumerate(volumes):
        if table in volume.shapes:
            shape.merge(volume.shapes[table])
            sources.append(f"from old{number}.main.{quote_name(table)}")
    con.execute(create_table_sql("volume", table, shape.column_list()))
    key = [name for name in SORT_KEYS.get(table, ()) if name in shape.columns]
    order = f"order by {', '.join(map(quote_name, key))}" if key else ""
    con.execute(
        f"insert into volume.main.{quote_name(table)} by name "  # noqa: S608 - names are quoted
        f"select * from ({' union all by name '.join(sources)}) {order}"
    )
