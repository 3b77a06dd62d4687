"""The lake: the history tables as Delta tables, for the segments of a run, after their exports."""

import dagster as dg

from exporters.lake.tables import LakeReport
from pipelines.assets.keys import LAKE, LAKE_TABLES, export_key
from pipelines.assets.same_warehouse import check_warehouse
from pipelines.batches import segments_of_run
from pipelines.partitions import SEGMENTS, partitions_of_run
from pipelines.retries import retried_if_transient
from pipelines.site.lake_publishing import publish_to_lake
from pipelines.site.site import Site
from transforms.block_range import BlockRange
from transforms.tables.registry import HISTORY_TABLES, history_tables


def lake_asset(policy: dg.BackfillPolicy) -> dg.AssetsDefinition:
    """Every table's rows of a run's segments, in one step.

    With them come the manifests of segments that are whole, and the newest current state.
    """
    spec = dg.AssetSpec(
        LAKE_TABLES,
        group_name=LAKE,
        deps=[export_key(table) for table in HISTORY_TABLES],
        kinds={"deltalake", "parquet"},
        description="The history tables as exact Parquet in Delta tables, and their manifests.",
    )

    @dg.multi_asset(
        name="publish_to_lake", specs=[spec], partitions_def=SEGMENTS, backfill_policy=policy
    )
    def publish(context: dg.AssetExecutionContext, site: dg.ResourceParam[Site]) -> None:
        segments = segments_of_run(partitions_of_run(context))
        with retried_if_transient(context.retry_number), site.warehouse.one_look():
            check_warehouse(context, site)
            report = publish_to_lake(site, segments)
        _describe(context, report, segments)
        if report.refused:
            raise _failure(report)

    return publish


def _describe(
    context: dg.AssetExecutionContext, report: LakeReport, segments: tuple[BlockRange, ...]
) -> None:
    """What became of each segment: the files that have its rows, with their rows and bytes."""
    for blocks in segments:
        files = (file for file in report.added if file.table in history_tables())
        added = [file for file in files if blocks.overlaps(file.blocks)]
        facts = {
            "files": len(added),
            "rows": sum(file.rows for file in added),
            "bytes": sum(file.bytes for file in added),
        }
        context.add_asset_metadata(facts, LAKE_TABLES, blocks.key)


def _failure(report: LakeReport) -> dg.Failure:
    reasons = "; ".join(f"{refusal.table}: {refusal.reason}" for refusal in report.refused)
    return dg.Failure(
        f"not everything could be put into the lake. {reasons}. {len(report.added)} files were.",
        metadata={refusal.table: refusal.reason for refusal in report.refused},
        allow_retries=False,
    )
