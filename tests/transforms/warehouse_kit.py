"""Whole loads in one call: a folder of segments into a warehouse, and its tables out again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import duckdb

from tests.segments_kit import build_segment, entry_bytes
from transforms.block_range import BlockRange
from transforms.objects import StoredFile
from transforms.scratch import scratch_folder
from transforms.segments.segment_name import SegmentName
from transforms.segments.segment_zip import TableFile
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import content_sha256
from transforms.tables.dialect import header_line
from transforms.tables.registry import known_table, known_tables
from transforms.verifying.findings import Finding
from transforms.verifying.verification import Verification
from transforms.warehouse.checks.warehouse_check import warehouse_findings
from transforms.warehouse.load.loader import LoadReport
from transforms.warehouse.load.rendering import rendered_body
from transforms.warehouse.load.table_load import PartSink
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.data_files import data_key
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse

STATE_TABLES = tuple(
    table
    for table in known_tables(1)
    if (known := known_table(table, 1)) and known.kind != "history"
)

history_segment = partial(build_segment, omit=STATE_TABLES)
"""A segment without current-state tables: legal, and loaded in a third of the time."""

state_segment = partial(build_segment, omit={*STATE_TABLES} - {"parties", "node_signatures"})
"""A segment with these tables of current state only, the second of which is looked up by key."""


class MemorySink:
    """A sink that keeps every proven CSV, by blocks and table; the last one written counts."""

    def __init__(self) -> None:
        self.csvs: dict[tuple[BlockRange, str], bytes] = {}
        self.rows: dict[tuple[BlockRange, str], int] = {}

    def write(self, csv: TableFile, body: Iterable[bytes], scratch: Path) -> None:
        key = (csv.segment.blocks, csv.table)
        self.csvs[key] = csv.schema.header + b"".join(body)
        self.rows[key] = csv.rows


HELD_STATES = ("accounts", "network_parameters", "orders_live", "parties")


@dataclass(frozen=True)
class Held:
    """Blocks 1-10 and 11-20 at schema version 1, loaded first, and 21-30 at version 21.

    Of the current state there are only the tables `HELD_STATES`.
    """

    folder: Path
    warehouse: Warehouse
    segments: tuple[Path, Path, Path]
    reports: tuple[LoadReport, LoadReport]
    sink: MemorySink


def load_folder(
    root: Path, folder: Path, sink: PartSink | None = None, *, requires_id_chain: bool = False
) -> LoadReport:
    """Load all that is new in a folder, as a command does; returns what happened."""
    warehouse, source = open_warehouse(root), Source(FolderStore(folder))
    warehouse.record_refusals(warehouse.survey(source))
    return load_pending(
        warehouse, source, sink or MemorySink(), requires_id_chain=requires_id_chain
    )


def volume_files(volume: Volume) -> list[StoredFile]:
    """All files of a volume."""
    return [*volume.row_files, *([volume.index] if volume.index else [])]


def load_pending(
    warehouse: Warehouse, source: Source, sink: PartSink, *, requires_id_chain: bool = False
) -> LoadReport:
    """Load all that is new in a source."""
    pending = warehouse.survey(source).pending
    return warehouse.load(source, pending, sink, requires_id_chain=requires_id_chain)


def cells_without_value(con: duckdb.DuckDBPyConnection) -> list[tuple[str, str, int]]:
    """Table, column and count of the cells that are NULL in `main` and not in `exact`, sorted."""
    tables = con.execute(
        "select table_name, list(column_name order by column_index) from duckdb_columns() "
        "where database_name = current_database() and schema_name = 'exact' "
        "and not starts_with(column_name, '_') group by all"
    ).fetchall()
    cells = []
    for table, columns in tables:
        values = ", ".join(f'count("{column}")' for column in columns)
        (exact,), (main,) = (
            con.execute(f"select {values} from {schema}.{table}").fetchall()
            for schema in ("exact", "main")
        )
        lost = zip(columns, exact, main, strict=True)
        cells += [(table, column, texts - shown) for column, texts, shown in lost if texts != shown]
    return sorted(cells)


def change_rows(path: Path, change: str) -> None:
    """Change the rows of a data file by SQL about the table `rows`."""
    with duckdb.connect() as con:
        con.execute(f"create table rows as from read_parquet('{path}')")
        con.execute(change)
        con.execute(f"copy rows to '{path}' (format parquet)")


def relist(warehouse: Warehouse) -> None:
    """Let the log name the files of volumes as they are now, after a test has written to them."""

    def renamed(volume: Volume, table: str, file: StoredFile) -> StoredFile:
        path = warehouse.cache / file.key
        sha256 = content_sha256(path)
        key = data_key(table, volume.blocks, sha256)
        path.rename(warehouse.cache / key)
        return StoredFile(key, (warehouse.cache / key).stat().st_size, sha256)

    def again(file: StoredFile) -> StoredFile:
        path = warehouse.cache / file.key
        return StoredFile(file.key, path.stat().st_size, content_sha256(path))

    def changed(newest: Snapshot) -> Snapshot:
        return newest.with_volumes(
            replace(
                volume,
                file=again(volume.file),
                index=volume.index and again(volume.index),
                data={table: renamed(volume, table, file) for table, file in volume.data.items()},
            )
            for volume in newest.volumes
        )

    warehouse.backing.log.commit(changed)


def render(warehouse: Warehouse, blocks: BlockRange, table: str, null: str = "") -> bytes:
    """One table of one segment as CSV bytes."""
    backing, catalog = warehouse.backing, warehouse.loaded_catalog()
    (receipt,) = (r for r in catalog.receipts(blocks) if (r.blocks, r.table) == (blocks, table))
    limit, data = backing.rendering_limit, catalog.data_path(blocks, table)
    with scratch_folder(backing.scratch) as scratch:
        body = rendered_body(data, scratch, receipt, null, limit)
        return header_line(receipt.schema.names, null) + b"".join(body)


def blocks_of(segment: Path) -> BlockRange:
    """The blocks that a segment's file name says."""
    return SegmentName.parse(segment.name).blocks


def verify(warehouse: Warehouse, verification: Verification | None = None) -> Iterator[Finding]:
    """What is wrong with a warehouse."""
    return warehouse_findings(warehouse.backing, verification or Verification())


def exact_tables(warehouse: Warehouse, segment: Path) -> dict[str, bool]:
    """For each table that was loaded of a segment: whether it renders to the entry of its ZIP.

    A table without rows is not rendered: it is the header that its receipt says.
    """
    exact: dict[str, bool] = {}
    for receipt in warehouse.receipts([blocks_of(segment)]):
        csv = receipt.schema.header
        if receipt.rows:
            csv = render(warehouse, receipt.blocks, receipt.table)
        exact[receipt.table] = csv == entry_bytes(segment, receipt.table)
    return exact


def query(warehouse: Warehouse, sql: str) -> list[tuple[object, ...]]:
    """The rows of a query over the current catalog."""
    with warehouse.connect() as con:
        return con.execute(sql).fetchall()


def quarantine_reasons(warehouse: Warehouse) -> dict[str, str]:
    """Why each refused file was refused, by its name."""
    return {file.key: file.reason for file in warehouse.snapshot().quarantine}
