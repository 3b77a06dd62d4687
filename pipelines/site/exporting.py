"""One table over any aligned range: from the archive's ZIPs, and the warehouse where one lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from exporters.archive.coverage import difference, union
from exporters.exports.plan import ExportPlan, HeldSegment, export_range, plan_export
from exporters.exports.splice import CsvParts, layout_export, layout_zip
from exporters.names import NameStyle, csv_name, zip_name
from exporters.zips.layout import Layout
from exporters.zips.parts import PartRef
from exporters.zips.staging import PartStage
from pipelines.site.site import Site
from transforms.blocks import BlockRange
from transforms.warehouse.receipts import Receipt
from transforms.warehouse.rendering import check_null


@dataclass(frozen=True, slots=True)
class RangeExport:
    """What is asked for, and the ZIP that answers it: one member for each span of the plan."""

    plan: ExportPlan
    layout: Layout


def plan_range(
    site: Site, table: str, first: int, last: int, style: NameStyle | None = None
) -> RangeExport:
    """Lay out the ZIP of `table` over blocks `first` to `last`; its size and members are exact.

    Raises `RangeError` where the range is not aligned or not held (spec 4.1; decisions 4 and 6).
    """
    plan, receipts = _planned(site, table, first, last)
    parts = list(_archived(site, plan))
    present = union(part.blocks for part in parts)
    for span in plan.spans:
        for blocks in span.segments:
            if difference((blocks,), present):
                parts.append(_local_part(site, receipts[blocks]))
    return RangeExport(plan, layout_export(plan, parts, style or site.settings.names))


def render_range(
    site: Site, table: str, first: int, last: int, null: str, stage: PartStage
) -> RangeExport:
    """Lay out the same ZIP with another NULL string (spec 2.8.3), rendered from the warehouse.

    Its parts lie in `stage` until it is written. Raises `RangeError`, and `ConfigError` for a NULL
    string that could not be told from a value.
    """
    check_null(null)
    plan, receipts = _planned(site, table, first, last)
    spans = []
    for span in plan.spans:
        parts = []
        for blocks in span.segments:
            segment = receipts[blocks].segment
            with site.warehouse.render(blocks, table, null=null) as text:
                stage.write(segment, span.schema, text.header, text.body, receipts[blocks].rows)
            part = stage.find(segment.chain_id, table, blocks)
            assert part is not None
            parts.append(part)
        name = csv_name(plan.chain_id, table, span.version, span.blocks, stage.style)
        spans.append(CsvParts(name, span.version, span.blocks, parts))
    name = zip_name(plan.chain_id, table, plan.blocks, stage.style)
    return RangeExport(plan, layout_zip(name, spans))


def _planned(
    site: Site, table: str, first: int, last: int
) -> tuple[ExportPlan, Mapping[BlockRange, Receipt]]:
    receipts = {receipt.blocks: receipt for receipt in site.warehouse.receipts(table=table)}
    held = (HeldSegment(receipt.segment, {table: receipt.schema}) for receipt in receipts.values())
    return plan_export(held, table, export_range(first, last)), receipts


def _archived(site: Site, plan: ExportPlan) -> Iterator[PartRef]:
    """The archive's parts that lie whole inside one of the CSVs to be."""
    for part in site.archive(plan.chain_id).parts(plan.table, plan.blocks):
        for span in plan.spans:
            if span.blocks.first <= part.blocks.first and part.blocks.last <= span.blocks.last:
                yield part


def _local_part(site: Site, receipt: Receipt) -> PartRef:
    """The part of one segment that waits to be published; rendered where there is none."""
    place = (receipt.segment.chain_id, receipt.table, receipt.blocks)
    part = site.stage.find(*place)
    if part is None:
        site.stage_part(receipt)
        part = site.stage.find(*place)
    assert part is not None
    return part
