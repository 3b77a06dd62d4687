"""The 15 history tables, loaded together, and what comes with the newest segment.

An asset here fetches, loads and reports; the thinking is in `transforms`.
"""

from collections.abc import Iterator, Mapping

import dagster as dg

from pipelines.assets.checks import check_specs, load_checks
from pipelines.assets.keys import CURRENT_STATE, WAREHOUSE, table_key
from pipelines.partitions import SEGMENTS, newest_of, segments_of_run
from pipelines.site.loading import LoadOutcome, load_segments, load_spam_captures
from pipelines.site.site import Site
from pipelines.step_failures import Scope, final_failure, retried_if_transient
from transforms.tables.column_facts import table_meaning
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.manifests.receipts import Receipt


def history_asset(policy: dg.BackfillPolicy) -> dg.AssetsDefinition:
    """All history tables of a run's segments in one step: they come out of the same files.

    Any of them may be picked alone; the load is the same, and done only where it is missing.
    """

    @dg.multi_asset(
        name="load_tables",
        specs=[
            dg.AssetSpec(
                table_key(table),
                group_name=WAREHOUSE,
                description=table_meaning(table),
                kinds={"duckdb"},
                skippable=True,
            )
            for table in HISTORY_TABLES
        ],
        check_specs=check_specs(),
        partitions_def=SEGMENTS,
        backfill_policy=policy,
        can_subset=True,
    )
    def load_tables(
        context: dg.AssetExecutionContext, site: dg.ResourceParam[Site]
    ) -> Iterator[dg.MaterializeResult[None] | dg.Output[None] | dg.AssetCheckEvaluation]:
        with retried_if_transient(context.retry_number):
            outcome = load_segments(site, segments_of_run(context))
        if outcome.failures:
            raise _failure(outcome)
        for key in sorted(context.selected_asset_keys):
            for receipt in outcome.receipts:
                if receipt.table == key.path[-1]:
                    context.add_asset_metadata(_metadata(receipt), key, receipt.blocks.key)
            yield dg.MaterializeResult[None](asset_key=key)
        yield from load_checks(context.selected_asset_check_keys, outcome)

    return load_tables


@dg.asset(
    key=CURRENT_STATE,
    group_name=WAREHOUSE,
    # It comes with a segment, of which every one has blocks; each dependency is a query.
    deps=newest_of(table_key("blocks")),
    kinds={"duckdb"},
    description="Tables dumped whole in every segment, of which only the newest segment's copy "
    "counts; and parties' spam counters, from `spam/` in the source.",
)
def current_state(
    context: dg.AssetExecutionContext, site: dg.ResourceParam[Site]
) -> dg.MaterializeResult[None]:
    """The tables of which only the newest segment's copy counts, and spam captures."""
    with retried_if_transient(context.retry_number):
        for line in load_spam_captures(site):
            context.log.warning("%s, line %d: %s", line.file, line.line, line.reason)
        states = site.warehouse.catalog().snapshot.states
    return dg.MaterializeResult[None](
        metadata={
            "as_of_block": states[-1].blocks.last if states else 0,
            "open_with": f"duckdb -readonly {site.warehouse.current}",
        }
    )


def _metadata(receipt: Receipt) -> Mapping[str, object]:
    # Dagster keeps this for every table of every segment: the rest is in the receipts.
    cells = {name: count for name, count in receipt.raw_cells.items() if count}
    raw = {"raw_cells": cells} if cells else {}
    facts = {"dagster/row_count": receipt.rows, "bytes": receipt.bytes, "sha256": receipt.sha256}
    return facts | raw


def _failure(outcome: LoadOutcome) -> dg.Failure:
    failed, count = len(outcome.failures), len(outcome.segments)
    return final_failure(
        f"{failed} of {count} segments cannot be loaded; the other {count - failed} are in the "
        "warehouse and are published by the next run",
        {f"segment {blocks}": reason for blocks, reason in outcome.failures.items()},
        Scope.FILES if outcome.unreadable else Scope.BATCH,
    )
