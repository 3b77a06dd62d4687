"""A table over every aligned range, held against the source with the standard library alone.

What is expected comes from `zipfile`, the headers' text and plain string formatting: names, splits
and bytes share no code with the product.
"""

from __future__ import annotations

import itertools
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from exporters.exports.plan import HeldColumns, plan_export
from exporters.zips.staging import PartStage
from pipelines.site.site import Site
from tests import zip_readers
from tests.exporters.lake.lake_kit import lake_site
from tests.exporters.part_kit import layout_export, render_empty_parts, staged
from tests.pipelines.kit import load as load_site
from transforms.block_range import BlockRange
from transforms.segments.segment_name import SegmentName
from transforms.tables.registry import TableSchema
from transforms.warehouse.warehouse import Warehouse

TABLES = [
    "balances",
    "blocks",
    "checkpoints",
    "delegations",
    "deposits",
    "ledger",
    "liquidity_provisions",
    "margin_levels",
    "market_data",
    "markets",
    "orders",
    "positions",
    "rewards",
    "trades",
    "withdrawals",
]
NAME = re.compile(r"(.+)-(\d+)-(\d+)-(\d+)\.zip")


@dataclass(frozen=True)
class SourceSegment:
    """A segment file as its name tells it."""

    path: Path
    chain: str
    version: int
    first: int
    last: int

    @property
    def blocks(self) -> BlockRange:
        return BlockRange(self.first, self.last)

    def csv(self, table: str) -> bytes:
        """One table of its history."""
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(f"history/{table}")


@dataclass(frozen=True)
class Loaded:
    """A loaded history: the source's segments, the warehouse and what it holds, and the parts."""

    segments: Sequence[SourceSegment]
    warehouse: Warehouse
    held: Mapping[SegmentName, Mapping[str, TableSchema]]
    stage: PartStage


def source_segments(folder: Path) -> list[SourceSegment]:
    """The segments of a folder, ascending."""
    found = []
    for path in folder.glob("*.zip"):
        match = NAME.fullmatch(path.name)
        assert match is not None, path
        found.append(SourceSegment(path, match[1], int(match[2]), int(match[3]), int(match[4])))
    return sorted(found, key=lambda segment: segment.first)


def load(folder: Path, home: Path) -> Loaded:
    """Load the segments of a folder into a warehouse and parts of their own below `home`."""
    site = lake_site(home, folder).site
    load_site(site)
    return loaded_history(site)


def loaded_history(site: Site) -> Loaded:
    """What a site has loaded, of which nothing is published."""
    warehouse = site.warehouse
    render_empty_parts(warehouse, site.stage)
    names = {receipt.blocks: receipt.segment for receipt in warehouse.receipts()}
    held = {
        name: {receipt.table: receipt.schema for receipt in warehouse.receipts([blocks])}
        for blocks, name in names.items()
    }
    return Loaded(source_segments(Path(site.settings.source)), warehouse, held, site.stage)


def expected_members(segments: Sequence[SourceSegment], table: str) -> Iterator[tuple[str, bytes]]:
    """The CSVs of an export: one for each run of segments with the same header line."""
    for header, run in itertools.groupby(
        segments, key=lambda segment: segment.csv(table).partition(b"\n")[0]
    ):
        alike = list(run)
        first = alike[0]
        name = f"{first.chain}-{table}-{first.version}-{first.first}-{alike[-1].last}.csv"
        bodies = (segment.csv(table).partition(b"\n")[2] for segment in alike)
        yield name, header + b"\n" + b"".join(bodies)


def assert_every_range_is_exact(loaded: Loaded, table: str, folder: Path) -> None:
    """Export the table over every range of whole segments into the folder and compare."""
    segments = loaded.segments
    for start, end in itertools.combinations_with_replacement(range(len(segments)), 2):
        wanted = segments[start : end + 1]
        blocks = BlockRange(wanted[0].first, wanted[-1].last)
        held = HeldColumns.of((name, schemas.get(table)) for name, schemas in loaded.held.items())
        plan = plan_export(held, table, blocks)
        parts = [
            part
            for segment in wanted
            if (part := staged(loaded.stage, segment.chain, table, segment.blocks))
        ]
        layout = layout_export(plan, parts)
        path = folder / layout.name
        layout.write(path, durable=False)

        assert layout.name == f"{segments[0].chain}-{table}-{blocks.first}-{blocks.last}.zip"
        assert path.stat().st_size == layout.size
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            written = [(name, archive.read(name)) for name in archive.namelist()]
        assert written == list(expected_members(wanted, table))
    # More independent readers, on the widest range.
    zip_readers.check(path)
