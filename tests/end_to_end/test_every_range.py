"""Every table over every aligned range, held against the source with the standard library alone.

What is expected comes from `zipfile`, the headers' text and plain string formatting: names, splits
and bytes share no code with the product.
"""

from __future__ import annotations

import itertools
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from exporters.exports.plan import HeldSegment, plan_export
from exporters.exports.splice import layout_export
from exporters.stores.folder import FolderStore
from exporters.zips.staging import PartStage
from tests import zip_readers
from tests.segments_kit import all_shared_segments, build_segment, table_rows
from transforms.blocks import BlockRange
from transforms.segments.source import Source
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
HISTORY = ((1, 1, 700), (1, 701, 1000), (2, 1001, 1100), (6, 1101, 1101), (6, 1102, 2000))


@dataclass(frozen=True)
class SourceSegment:
    """A segment file as its name tells it."""

    path: Path
    chain: str
    version: int
    first: int
    last: int

    def csv(self, table: str) -> bytes:
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(f"history/{table}")


@dataclass(frozen=True)
class Loaded:
    """A loaded history: the source's segments, what the warehouse holds, and the parts."""

    segments: Sequence[SourceSegment]
    held: Sequence[HeldSegment]
    stage: PartStage


def source_segments(folder: Path) -> list[SourceSegment]:
    found = []
    for path in folder.glob("*.zip"):
        match = NAME.fullmatch(path.name)
        assert match is not None, path
        found.append(SourceSegment(path, match[1], int(match[2]), int(match[3]), int(match[4])))
    return sorted(found, key=lambda segment: segment.first)


def load(folder: Path, home: Path) -> Loaded:
    warehouse, stage = Warehouse(home / "warehouse"), PartStage(home / "parts", durable=False)
    source = Source(FolderStore(folder))
    report = warehouse.load(source, warehouse.survey(source).pending, stage)
    assert report.failures == []
    names = {receipt.blocks: receipt.segment for receipt in warehouse.receipts()}
    held = [
        HeldSegment(
            name, {receipt.table: receipt.schema for receipt in warehouse.receipts([blocks])}
        )
        for blocks, name in names.items()
    ]
    return Loaded(source_segments(folder), held, stage)


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
    segments = loaded.segments
    for start, end in itertools.combinations_with_replacement(range(len(segments)), 2):
        wanted = segments[start : end + 1]
        blocks = BlockRange(wanted[0].first, wanted[-1].last)
        plan = plan_export(loaded.held, table, blocks)
        parts = [
            part
            for segment in wanted
            if (
                part := loaded.stage.find(
                    segment.chain, table, BlockRange(segment.first, segment.last)
                )
            )
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


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """A history of uneven segments over three schema versions, one of which renames columns."""
    folder = tmp_path_factory.mktemp("generated")
    for version, first, last in HISTORY:
        tables = {
            table: table_rows(table, {}, {}, {}, version=version, first=first)
            for table in TABLES
            if table != "blocks"
        }
        build_segment(folder, version=version, first=first, last=last, tables=tables)
    return load(folder, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Loaded]:
    """Every folder of recorded segments, loaded by itself."""
    return [load(folder, tmp_path_factory.mktemp("home")) for folder in all_shared_segments()]


@pytest.mark.parametrize("table", TABLES)
def test_every_aligned_range_of_a_generated_history_is_exact(
    generated: Loaded, table: str, tmp_path: Path
) -> None:
    assert_every_range_is_exact(generated, table, tmp_path)


@pytest.mark.parametrize("table", TABLES)
def test_every_aligned_range_of_the_recorded_segments_is_exact(
    recorded: list[Loaded], table: str, tmp_path: Path
) -> None:
    for number, loaded in enumerate(recorded):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert_every_range_is_exact(loaded, table, folder)
