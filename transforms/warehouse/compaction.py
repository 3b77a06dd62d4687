"""Compaction: neighbouring volumes become one, so that few files answer a look-up.

Which do is planned in `merge_plan`. Rows that were loaded, and sorted, in parts are sorted as a
whole. The merged volume is proven against the receipts before the catalog names it; the old ones
stay for the grace period, for readers of older generations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from transforms.duck import Connection, attached, quote_name, quote_text, working_connection
from transforms.errors import IntegrityError
from transforms.lookups.lookup_tables import write_lookups
from transforms.scratch import scratch_folder
from transforms.warehouse.backing import Backing
from transforms.warehouse.document import Document
from transforms.warehouse.log import Log
from transforms.warehouse.merge_plan import MOST_PARTIAL, plan_merges, unsorted
from transforms.warehouse.receipts import LoadedSegment, Receipt
from transforms.warehouse.rendering import volume_digests
from transforms.warehouse.shapes import Shape, Volume
from transforms.warehouse.storing import store_history
from transforms.warehouse.table_load import sort_sql
from transforms.warehouse.volume_records import Origin, read_receipts, read_segments, write_records
from transforms.warehouse.volumes import LoadSettings, attach_options, create_table_sql


@dataclass(slots=True)
class CompactionReport:
    """Which volumes became which: (new file, old files), keys in the warehouse."""

    merged: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)


def merge(
    backing: Backing, settings: LoadSettings, most_partial: int = MOST_PARTIAL
) -> CompactionReport:
    """Merge until nothing is worth merging; see `plan_merges` for `most_partial`.

    May be killed and run again, beside loads and readers. Raises `IntegrityError` where a merged
    volume does not render to the bytes of its receipts; the old volumes then stay as they are.
    """
    return _rewrite(backing, settings, lambda present: [*plan_merges(present, most_partial)])


def compact(
    backing: Backing, settings: LoadSettings, most_partial: int = MOST_PARTIAL
) -> CompactionReport:
    """Merge like `merge`, then write volumes anew whose rows are sorted only in parts."""

    def plan(present: Sequence[Volume]) -> Sequence[Sequence[Volume]]:
        merges = [*plan_merges(present, most_partial)]
        return merges or [[volume] for volume in unsorted(present)]

    return _rewrite(backing, settings, plan)


def _rewrite(
    backing: Backing,
    settings: LoadSettings,
    plan: Callable[[Sequence[Volume]], Sequence[Sequence[Volume]]],
) -> CompactionReport:
    report = CompactionReport()
    while document := backing.log.newest():
        runs = plan(backing.catalog(document).intact().history())
        if not runs:
            break
        for volumes in runs:
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
        rest = [volume for volume in newest.volumes if volume.key not in old]
        if len(rest) + len(old) != len(newest.volumes):
            return None
        return newest.with_volumes([*rest, merged])

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
            scratch, threads=settings.threads, memory_limit=backing.memory_limit
        ) as con,
    ):
        for number, volume in enumerate(volumes):
            file = quote_text(backing.files.path(volume.file))
            con.execute(f"attach {file} as old{number} (read_only)")
        origin = Origin(document.warehouse, document.generation, is_sorted=True)
        segments, receipts = _write(con, path, origin, volumes)
    for receipt, digest in volume_digests(path, scratch, backing.memory_limit):
        if digest != receipt.sha256:
            raise IntegrityError(
                f"merged, table {receipt.table} of segment {receipt.blocks} renders to SHA-256 "
                f"{digest}, its receipt says {receipt.sha256}: the old volumes stay"
            )
    return store_history(backing.store, backing.files, path, origin, segments, receipts)


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
    with attached(con, path, "volume", attach_options(sum(volume.size for volume in volumes))):
        write_records(con, "volume", origin, segments, receipts)
        for table in sorted(tables):
            _merge_table(con, table, volumes)
        write_lookups(con, "volume", is_sorted=True)
    return segments, receipts


def _merge_table(con: Connection, table: str, volumes: Sequence[Volume]) -> None:
    shape = Shape()
    sources = []
    for number, volume in enumerate(volumes):
        if table in volume.shapes:
            shape.merge(volume.shapes[table])
            sources.append(f"from old{number}.main.{quote_name(table)}")
    con.execute(create_table_sql("volume", table, shape.column_list()))
    con.execute(
        f"insert into volume.main.{quote_name(table)} by name "  # noqa: S608 - names are quoted
        f"select * from ({' union all by name '.join(sources)}) {sort_sql(table, shape.columns)}"
    )
