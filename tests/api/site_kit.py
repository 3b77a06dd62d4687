"""A real warehouse and a real archive, made from segments as the pipeline would."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from api.settings import Places
from exporters.archive import Archive
from exporters.entries import SegmentSource
from exporters.folder_store import FolderStore
from exporters.item import PublishItem
from exporters.publish import publish_zips
from exporters.staging import PartStage
from transforms.registry import HISTORY_TABLES
from transforms.segments import BlockRange
from transforms.source import Source
from transforms.warehouse import Warehouse


@dataclass(frozen=True)
class Site:
    """A folder with a source, a warehouse and an archive below it."""

    root: Path

    @property
    def places(self) -> Places:
        """Where the server finds them."""
        return Places(self.warehouse.root, str(self.root / "archive"), str(self.source_folder))

    @property
    def source_folder(self) -> Path:
        return self.root / "source"

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.root / "warehouse")

    @property
    def stage(self) -> PartStage:
        return PartStage(self.warehouse.root / "parts", durable=False)

    @property
    def archive(self) -> Archive:
        catalog = self.warehouse.catalog()
        assert catalog is not None
        return Archive(FolderStore(self.root / "archive"), catalog.chain_id)

    def load(self, source: Path | None = None) -> None:
        """Load all segments of a folder (default: the site's own) that are not loaded yet."""
        found = Source(FolderStore(source or self.source_folder))
        survey = self.warehouse.survey(found)
        report = self.warehouse.load(found, survey.pending, self.stage)
        assert not report.failures, report.failures

    def publish(
        self,
        segments: Collection[BlockRange] | None = None,
        tables: Collection[str] = HISTORY_TABLES,
    ) -> None:
        """Publish loaded segments (default: all) and forget their waiting parts."""
        archive = self.archive
        receipts = [
            receipt
            for receipt in self.warehouse.receipts(segments)
            if receipt.table in tables and receipt.table in HISTORY_TABLES
        ]
        items = [
            PublishItem(
                receipt.table,
                self.stage.path(archive.chain_id, receipt.table, receipt.blocks),
                (SegmentSource(receipt.blocks, receipt.segment.version),),
                (receipt.schema,),
                receipt.rows,
            )
            for receipt in receipts
        ]
        report = publish_zips(archive, items)
        assert not report.failed, report.failed
        for receipt in receipts:
            self.stage.remove(archive.chain_id, receipt.table, receipt.blocks)
