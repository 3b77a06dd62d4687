"""One table over any aligned range: from the archive's ZIPs, and the warehouse where one lacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from exporters.coverage import difference, union
from exporters.layout import Layout
from exporters.names import NameStyle
from exporters.plan import ExportPlan, HeldSegment, export_range, plan_export
from exporters.splice import PartRef, layout_export
from pipelines.site import Site
from transforms.receipts import Receipt


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
    receipts = {receipt.blocks: receipt for receipt in site.warehouse.receipts(table=table)}
    held = (HeldSegment(receipt.segment, {table: receipt.schema}) for receipt in receipts.values())
    plan = plan_export(held, table, export_range(first, last))
    parts = list(_archived(site, plan))
    present = union(part.blocks for part in parts)
    for span in plan.spans:
        for blocks in span.segments:
            if difference((blocks,), present):
                parts.append(_local_part(site, receipts[blocks]))
    return RangeExport(plan, layout_export(plan, parts, style or site.settings.names))


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
