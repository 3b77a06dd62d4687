"""The lake: the 15 tables as Delta tables, for the segments of a run, after their exports."""

from collections.abc import Iterator, Mapping

import dagster as dg

from exporters.lake.reports import LakeReport
from pipelines.assets.keys import LAKE, export_key, lake_key
from pipelines.assets.same_warehouse import check_warehouse
from pipelines.batches import segments_of_run
from pipelines.partitions import SEGMENTS, partitions_of_run
from pipelines.retries import retried_if_transient
from pipelines.site.lake_publishing import publish_to_lake
from pipelines.site.site import Site
from transforms.block_range import BlockRange
from transforms.tables.registry import HISTORY_TABLES


def lake_asset(policy: dg.BackfillPolicy) -> dg.AssetsDefinition:
    """Every table's rows of a run's segments, in one step; any table may be picked alone.

    With them come the receipts of segments that are whole, and the newest current state.
    """

    @dg.multi_asset(
        name="publish_to_lake",
        specs=[*map(_spec, HISTORY_TABLES)],
        partitions_def=SEGMENTS,
        backfill_policy=policy,
        can_subset=True,
    )
    def publish(
        context: dg.AssetExecutionContext, site: dg.ResourceParam[Site]
    ) -> Iterator[dg.MaterializeResult[None]]:
        segments = segments_of_run(partitions_of_run(context))
        keys = {key.path[-1]: key for key in sorted(context.selected_asset_keys)}
        with retried_if_transient(context.retry_number), site.warehouse.one_look():
            check_warehouse(context, site)
            report = publish_to_lake(site, segments, tuple(keys))
        _describe(context, keys, report, segments)
        failed = {refusal.table for refusal in report.refused}
        for table, key in keys.items():
            if table not in failed and not report.refused_segments:
                yield dg.MaterializeResult[None](asset_key=key)
        if report.refused:
            raise _failure(report)

    return publish


def _spec(table: str) -> dg.AssetSpec:
    return dg.AssetSpec(
        lake_key(table),
        group_name=LAKE,
        deps=[export_key(table)],
        kinds={"deltalake", "parquet"},
        description=f"{table} as exact Parquet in a Delta table, proven to render to the CSV.",
        skippable=True,
    )


def _describe(
    context: dg.AssetExecutionContext,
    keys: Mapping[str, dg.AssetKey],
    report: LakeReport,
    segments: tuple[BlockRange, ...],
) -> None:
    """What became of each segment: the file that has its rows, with the file's rows and bytes."""
    for added in report.added:
        for blocks in segments if added.table in keys else ():
            if blocks.overlaps(added.blocks):
                facts = {"file": added.name, "rows": added.rows, "bytes": added.bytes}
                context.add_asset_metadata(facts, keys[added.table], blocks.key)


def _failure(report: LakeReport) -> dg.Failure:
    reasons = "; ".join(f"{refusal.table}: {refusal.reason}" for refusal in report.refused)
    return dg.Failure(
        f"not everything could be put into the lake. {reasons}. {len(report.added)} files were.",
        metadata={refusal.table: refusal.reason for refusal in report.refused},
        allow_retries=False,
    )
