"""Real parts and ZIPs in a folder, made of whatever bytes a test cares about."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from exporters.exports.plan import ExportPlan
from exporters.exports.splice import CsvParts, layout_spans, layout_zip
from exporters.exports.staged_zips import render_part
from exporters.zip_names import NameStyle, csv_name, zip_name
from exporters.zips.layout import Layout
from exporters.zips.part_zip import write_part_zip
from exporters.zips.parts import PartColumns, PartRef, read_parts
from exporters.zips.sources import LocalSource
from exporters.zips.staging import PartStage
from transforms.block_range import BlockRange
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.warehouse import Warehouse

CHAIN = "testnet-001"
TABLE = "orders"
HEADER = b"id,size\n"


@dataclass(frozen=True, slots=True)
class MemorySource:
    """Bytes that a test makes up, as a source called `name`."""

    name: str
    data: bytes
    version: str = ""

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return len(self.data)

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`."""
        return self.data[offset : offset + length]


def blocks_of(number: int) -> BlockRange:
    """The blocks of the segment with that number, from 0: 1-1000, 1001-2000, ..."""
    return BlockRange(number * 1000 + 1, number * 1000 + 1000)


def noise(size: int) -> bytes:
    """So many bytes that no compressor makes fewer of, without FF, which no CSV has."""
    return os.urandom(size).replace(b"\xff", b"\xfe")


def make_part(
    folder: Path,
    blocks: BlockRange,
    body: Iterable[bytes] = (),
    *,
    header: bytes = HEADER,
    version: int = 1,
    rows: int = 0,
) -> PartRef:
    """Write the ZIP of one part and read it back."""
    path = folder / zip_name(CHAIN, TABLE, blocks)
    name = csv_name(CHAIN, TABLE, version, blocks)
    write_part_zip(path, name, header, body, rows)
    return read_parts(LocalSource.open(path))[0]


def staged(stage: PartStage, chain_id: str, table: str, blocks: BlockRange) -> PartRef | None:
    """A part in a folder of parts, if it is there."""
    path = stage.path(chain_id, table, blocks)
    return read_parts(LocalSource.open(path))[0] if path.exists() else None


def render_empty_parts(warehouse: Warehouse, stage: PartStage) -> None:
    """Make the parts of loaded tables without rows, which a load leaves to whoever needs them."""
    catalog, limit = warehouse.loaded_catalog(), warehouse.backing.rendering_limit
    for receipt in warehouse.receipts():
        if receipt.table in HISTORY_TABLES and not receipt.rows:
            render_part(stage, catalog, receipt, stage.scratch, limit)


def make_parts(folder: Path, bodies: Sequence[bytes]) -> list[PartRef]:
    """Write one part for each body, of consecutive segments."""
    return [make_part(folder, blocks_of(at), [body]) for at, body in enumerate(bodies)]


def csv_of(parts: Sequence[PartRef]) -> CsvParts:
    """The CSV that the parts, ascending, make together."""
    blocks = BlockRange(parts[0].blocks.first, parts[-1].blocks.last)
    version = parts[0].version
    return CsvParts(csv_name(CHAIN, TABLE, version, blocks), version, blocks, PartColumns.of(parts))


def layout_export(
    plan: ExportPlan, parts: Sequence[PartRef], style: NameStyle = NameStyle.SPEC
) -> Layout:
    """Lay out the ZIP of a plan from the parts of its segments, ascending."""
    by_span = (
        PartColumns.of(part for part in parts if span.blocks.holds(part.blocks))
        for span in plan.spans
    )
    return layout_spans(plan, by_span, style)


def splice(path: Path, *csvs: Sequence[PartRef]) -> Path:
    """Write the ZIP that holds one CSV for each sequence of parts."""
    layout_zip(path.name, [csv_of(parts) for parts in csvs]).write(path, durable=False)
    return path


def contents(path: Path) -> dict[str, bytes]:
    """Name and text of every CSV in a ZIP, as the standard library reads them (CRC-32 checked)."""
    with ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
