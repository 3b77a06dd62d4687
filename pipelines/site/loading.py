"""Loading the segments of one run, whoever asked for them: Dagster or the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipelines.site.site import Site
from transforms.blocks import BlockRange
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.receipts import Receipt
from transforms.warehouse.surveying import Survey


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """What became of the segments: receipts by table, ascending by block; reasons of failures."""

    segments: tuple[BlockRange, ...]
    receipts: Mapping[str, Sequence[Receipt]]
    failures: Mapping[BlockRange, str]

    def receipts_of(self, blocks: BlockRange) -> list[Receipt]:
        """The receipts of one segment, a table each."""
        return [one for mine in self.receipts.values() for one in mine if one.blocks == blocks]


def load_segments(site: Site, segments: Sequence[BlockRange]) -> LoadOutcome:
    """Load those of the segments that are not loaded yet, also such as failed before.

    Every segment that is in the warehouse at the end has its receipts; the others their reason.
    """
    site.sweep()
    survey = site.warehouse.survey(site.source)
    wanted = frozenset(segments)
    files = [file for file in survey.inventory.segments if file.blocks in wanted]
    report = site.warehouse.load(site.source, files, site.stage, site.progress)
    catalog = site.warehouse.catalog()
    held = catalog.segments if catalog else {}
    refused = {
        refusal.key: refusal.reason for refusal in (*report.failures, *survey.inventory.refused)
    }
    failures = {
        blocks: _reason(survey, blocks, refused) for blocks in segments if blocks not in held
    }
    fresh = {(receipt.table, receipt.blocks): receipt for receipt in report.receipts}
    known = site.warehouse.receipts([blocks for blocks in segments if blocks in held])
    receipts: dict[str, list[Receipt]] = {table: [] for table in HISTORY_TABLES}
    for receipt in known:
        if receipt.table in receipts:
            mine = fresh.get((receipt.table, receipt.blocks), receipt)
            receipts[receipt.table].append(mine)
    return LoadOutcome(tuple(segments), receipts, failures)


def _reason(survey: Survey, blocks: BlockRange, refused: Mapping[str, str]) -> str:
    for file in survey.inventory.segments:
        if file.blocks == blocks:
            return refused.get(file.info.key, f"{file.info.key} was not loaded")
    for key, reason in refused.items():
        if key.endswith(f"-{blocks}.zip"):
            return reason
    return "the source has no such segment"
