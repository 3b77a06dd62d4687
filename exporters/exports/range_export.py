"""The export of one table over a range of blocks (spec 2.8 and 4.1): once, for whoever asks.

The command line, Dagster, HTTP and gRPC plan, find, prove, lay out and stream here, so that all of
them give the same bytes with the same guarantees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from exporters.archive.archive import Archive
from exporters.exports.copies import Warn
from exporters.exports.part_search import PartSearch, held_columns
from exporters.exports.plan import (
    ExportPlan,
    HeldColumns,
    check_table,
    export_range,
    plan_export,
)
from exporters.exports.published_zips import ZipProver
from exporters.exports.splice import layout_spans
from exporters.exports.staged_zips import render_part
from exporters.zip_names import NameStyle
from exporters.zips.layout import Layout
from exporters.zips.parts import PartColumns, PartRef, read_parts
from exporters.zips.sources import LocalSource
from exporters.zips.staging import PartStage
from transforms.block_range import BlockRange
from transforms.errors import RangeError
from transforms.memory import RENDERING_LIMIT
from transforms.stores.store import Store
from transforms.tables.dialect import check_null
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.manifest_rows import parse_receipts
from transforms.warehouse.questions.table_receipts import table_receipts

RENDERED_BYTES = 20 * 2**30
"""How many bytes of rendered parts are kept by default."""


@dataclass(frozen=True, slots=True)
class RangeExport:
    """What is asked for, and the ZIP that answers it: one member for each span of the plan."""

    plan: ExportPlan
    layout: Layout


def _nothing(*_: object) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class RangeExporter:
    """Exports from one warehouse and the archive in `store`; safe among threads and processes.

    `cache` is this machine's folder for the warehouse: parts and what was rendered. `style`
    says how numbers are written in names, `rendered_bytes` how much of what is rendered is kept for
    the next export, `memory_limit` what DuckDB may hold in memory to render.
    """

    cache: Path
    store: Store
    style: NameStyle = NameStyle.SPEC
    rendered_bytes: int = RENDERED_BYTES
    memory_limit: str = RENDERING_LIMIT
    _suspects: set[str] = field(default_factory=set, init=False)

    def export(
        self,
        catalog: Catalog,
        table: str,
        first: int,
        last: int,
        *,
        prove_bytes: int | None = None,
        warn: Warn = _nothing,
        check: Callable[[], object] = _nothing,
        progress: Callable[[int], object] = _nothing,
    ) -> RangeExport:
        """Lay out the ZIP of `table` over blocks `first` to `last`; its size and members are exact.

        Every ZIP that parts are taken from is proven: those of the first `prove_bytes` bytes (None:
        all) now, the others before their first byte is read, which then ends with an error where
        one is damaged; it is not taken again. `warn` is told which copies are damaged now; others
        are taken, and what lies nowhere is rendered. `check` is called now and then, and raises
        where nobody waits any more; `progress` gets the bytes of ZIPs that were just proven.

        Raises `InvalidExportError` and `NotHeldError` (both `RangeError`) where the range is not
        aligned or not held (decisions 4 and 6), `IntegrityError` where a part is sound nowhere.
        """
        plan, receipts = _planned(catalog, table, first, last)
        search = PartSearch(
            ZipProver(Archive(self.store, plan.chain_id), catalog.files.proofs, self._suspects),
            PartStage(self.cache / "parts", self.style),
            PartStage(self.cache / "rendered", self.style),
            self.cache / "scratch",
            self.rendered_bytes,
            self.memory_limit,
            catalog,
            receipts,
            warn,
            check,
            progress,
        )
        return RangeExport(plan, search.lay_out(plan, self.style, prove_bytes))

    def export_with_null(
        self,
        catalog: Catalog,
        table: str,
        first: int,
        last: int,
        null: str,
        folder: Path,
    ) -> RangeExport:
        """Lay out the same ZIP with another NULL string (spec 2.8.3), rendered from the warehouse.

        Its parts lie in `folder` until it is written. Raises `RangeError`, and `ConfigError` for a
        NULL string that could not be told from a value.
        """
        check_null(null)
        plan, receipts = _planned(catalog, table, first, last)
        stage = PartStage(folder, self.style)
        for receipt in parse_receipts(receipts):
            render_part(stage, catalog, receipt, folder, self.memory_limit, null=null)
        parts = (
            PartColumns.of(_part(stage, plan, blocks) for blocks in span.segments)
            for span in plan.spans
        )
        return RangeExport(plan, layout_spans(plan, parts, stage.style))


def _planned(catalog: Catalog, table: str, first: int, last: int) -> tuple[ExportPlan, pa.Table]:
    """The plan of an export, and the receipts of its segments."""
    check_table(table)
    blocks = export_range(first, last)
    receipts = table_receipts(catalog, table, blocks)
    try:
        return plan_export(held_columns(receipts, table), table, blocks), receipts
    except RangeError:
        # All segments, which may be very many, are needed only to say what would be right.
        schemas = {receipt.blocks: receipt.schema for receipt in parse_receipts(receipts)}
        names = (segment.name for segment in catalog.segments())
        segments = ((name, schemas.get(name.blocks)) for name in names)
        return plan_export(HeldColumns.of(segments), table, blocks), receipts


def _part(stage: PartStage, plan: ExportPlan, blocks: BlockRange) -> PartRef:
    (part,) = read_parts(LocalSource.open(stage.path(plan.chain_id, plan.table, blocks)))
    return part
