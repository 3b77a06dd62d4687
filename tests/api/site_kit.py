"""A real warehouse and a real archive, made from segments as the pipeline would."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.exports.staged_zips import render_part, staged_part
from exporters.locations import Locations
from exporters.publishing.publication import publish_zips
from exporters.publishing.request import PublishRequest
from exporters.zips.staging import PartStage
from tests.archive_kit import segment_source
from tests.segments_kit import KIT_CHAIN, block_time, table_rows
from tests.transforms.warehouse_kit import history_segment, load_pending
from transforms.block_range import BlockRange
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.tables.registry import HISTORY_TABLES
from transforms.verifying.proofs import Proofs
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse

FIRST, SECOND, THIRD = BlockRange(1, 20), BlockRange(21, 40), BlockRange(41, 50)
CHAIN = KIT_CHAIN
MARKETS = ("a1" * 32, "a2" * 32)
PARTIES = ("b1" * 32, "b2" * 32)


@dataclass(frozen=True)
class Site:
    """A folder with a source, a warehouse and an archive below it."""

    root: Path

    @property
    def locations(self) -> Locations:
        """Where the server finds them."""
        return Locations(
            source=str(self.source_folder),
            warehouse=str(self.warehouse.cache),
            archive=str(self.root / "archive"),
        )

    @property
    def source_folder(self) -> Path:
        return self.root / "source"

    @property
    def warehouse(self) -> Warehouse:
        return open_warehouse(self.root / "warehouse")

    @property
    def stage(self) -> PartStage:
        return PartStage(self.warehouse.cache / "parts")

    @property
    def archive(self) -> Archive:
        catalog = self.warehouse.catalog()
        return Archive(FolderStore(self.root / "archive"), catalog.snapshot.chain_id)

    def load(self, source: Path | None = None) -> None:
        """Load all segments of a folder (default: the site's own) that are not loaded yet."""
        found = Source(FolderStore(source or self.source_folder))
        report = load_pending(self.warehouse, found, self.stage)
        assert not report.failures, report.failures

    def copied(self, root: Path) -> Site:
        """A copy to be changed at will."""
        shutil.copytree(self.root, root, symlinks=True)
        copy = Site(root)
        copy.load()  # the views name files by path: they are written anew
        return copy

    def add_segment(
        self, blocks: BlockRange, provisions: Collection[int] = (), orders: int = 1500
    ) -> None:
        """Write a segment of the source: orders, a withdrawal and these liquidity provisions."""
        write_segment(self.source_folder, blocks, provisions, orders)

    def publish(
        self,
        segments: Collection[BlockRange] | None = None,
        tables: Collection[str] = HISTORY_TABLES,
    ) -> None:
        """Publish loaded segments (default: all) and forget their staged ZIPs."""
        archive = self.archive
        receipts = [
            receipt
            for receipt in self.warehouse.receipts(segments)
            if receipt.table in tables and receipt.table in HISTORY_TABLES
        ]
        requests = [self._request(receipt) for receipt in receipts]
        report = publish_zips(archive, requests)
        assert not report.failed, report.failed
        for receipt in receipts:
            self.stage.remove(archive.chain_id, receipt.table, receipt.blocks)

    def _request(self, receipt: Receipt) -> PublishRequest:
        if not receipt.rows:
            limit = self.warehouse.backing.rendering_limit
            render_part(self.stage, self.warehouse.catalog(), receipt, self.stage.scratch, limit)
        part = staged_part(self.stage, receipt, Proofs())
        path = self.stage.path(self.archive.chain_id, receipt.table, receipt.blocks)
        source = segment_source(receipt.blocks, receipt.segment.version)
        hashes = (receipt.sha256, part.source.version)
        return PublishRequest(path, part.member, source, receipt.schema, *hashes)


def small_site(root: Path) -> Site:
    """Three segments of a small market, loaded but not published."""
    site = Site(root)
    site.add_segment(FIRST, range(60))
    site.add_segment(SECOND, [0, 1])
    site.add_segment(THIRD)
    site.load()
    return site


def write_segment(
    folder: Path, blocks: BlockRange, provisions: Collection[int], orders: int
) -> Path:
    """A segment whose orders barely compress, so that a ZIP of them can be cut anywhere."""
    first = blocks.first
    rows = [
        {"id": f"\\x{_digest('order', first, number)}", "reference": _digest(first, number)}
        for number in range(orders)
    ]
    tables = {
        "orders": table_rows("orders", *rows, first=first),
        "withdrawals": table_rows(
            "withdrawals", {"id": f"\\x{_digest('withdrawal', first)}"}, first=first
        ),
        "liquidity_provisions": table_rows(
            "liquidity_provisions",
            *(_provision(number, first) for number in provisions),
            first=first,
        ),
    }
    return history_segment(folder, first=first, last=blocks.last, tables=tables)


def _provision(number: int, first: int) -> Mapping[str, str]:
    return {
        "id": f"\\x{number:064x}",
        "market_id": f"\\x{MARKETS[number % 2]}",
        "party_id": f"\\x{PARTIES[number // 2 % 2]}",
        "commitment_amount": str(first),
        "status": "STATUS_ACTIVE",
        "sells": "[]",
        "buys": "[]",
        "vega_time": block_time(first, number),
    }


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
