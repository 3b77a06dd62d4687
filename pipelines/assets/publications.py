"""What is published: the 15 exports, one asset for each table, the index and the lake.

An asset here publishes and reports; the thinking is in `exporters`.
"""

from collections.abc import Iterator

import dagster as dg

from exporters.archive.entries import Entry
from exporters.archive.sound_documents import sound_index
from exporters.archive.sums import completeness
from exporters.publishing.publication import PublishReport
from pipelines.assets.keys import (
    ARCHIVE,
    INDEX,
    LAKE,
    LAKE_TABLES,
    export_key,
    table_key,
)
from pipelines.partitions import SEGMENTS, newest_of, segments_of_run
from pipelines.site.lake_publishing import publish_to_lake
from pipelines.site.publishing import publish_segments
from pipelines.site.site import Site
from pipelines.step_failures import final_failure, retried_if_transient
from transforms.tables.registry import HISTORY_TABLES


def exports_asset(policy: dg.BackfillPolicy) -> dg.AssetsDefinition:
    """Every table's ZIPs, one for each segment of a run, in one step.

    Any table may be picked alone. The archive's index is written once for all of them.
    """

    @dg.multi_asset(
        name="publish_tables",
        specs=[*map(_export_spec, HISTORY_TABLES)],
        partitions_def=SEGMENTS,
        backfill_policy=policy,
        can_subset=True,
    )
    def publish_tables(
        context: dg.AssetExecutionContext, site: dg.ResourceParam[Site]
    ) -> Iterator[dg.MaterializeResult[None]]:
        keys = {key.path[-1]: key for key in sorted(context.selected_asset_keys)}
        with retried_if_transient(context.retry_number), site.warehouse.one_look():
            outcome = publish_segments(site, segments_of_run(context), tuple(keys))
        for entry in outcome.entries:
            context.add_asset_metadata(_metadata(entry), keys[entry.table], entry.blocks.key)
        failed = {failure.table for failure in outcome.report.failed}
        for table, key in keys.items():
            if table not in failed:
                yield dg.MaterializeResult[None](asset_key=key)
        if failed:
            raise _failure(", ".join(sorted(failed)), outcome.report)

    return publish_tables


def _export_spec(table: str) -> dg.AssetSpec:
    return dg.AssetSpec(
        export_key(table),
        group_name=ARCHIVE,
        deps=[table_key(table)],
        kinds={"csv"},
        description=f"{table} as exact CSV in a ZIP for each segment, with its SHA-256.",
        skippable=True,
    )


@dg.asset(
    key=INDEX,
    group_name=ARCHIVE,
    deps=newest_of(*map(export_key, HISTORY_TABLES)),
    kinds={"json"},
    description="The archive's index: every ZIP with rows, bytes and hashes; the height up to "
    "which it is complete; its gaps.",
)
def index(
    context: dg.AssetExecutionContext, site: dg.ResourceParam[Site]
) -> dg.MaterializeResult[None]:
    """The archive's index: entries, complete-until height, gaps, pages."""
    with retried_if_transient(context.retry_number), site.warehouse.one_look():
        archive = site.archive(site.loaded_catalog().snapshot.chain_id)
        extent = completeness(sound_index(archive).tables)
    return dg.MaterializeResult[None](
        metadata={
            "complete_until": extent.until or 0,
            "gaps": [str(gap) for gap in extent.gaps],
            "page": archive.place("index.html"),
        }
    )


def lake_asset(policy: dg.BackfillPolicy) -> dg.AssetsDefinition:
    """Every table's rows of a run's segments as Delta tables, in one step, after their exports.

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
        with retried_if_transient(context.retry_number), site.warehouse.one_look():
            refused = publish_to_lake(site, segments_of_run(context))
        if refused:
            raise final_failure("not everything could be put into the lake", refused)

    return publish


def _metadata(entry: Entry) -> dict[str, str | int]:
    # Dagster keeps this for every ZIP: the rest is in the archive's index.
    return {"dagster/row_count": entry.rows, "bytes": entry.bytes, "sha256": entry.sha256}


def _failure(what: str, report: PublishReport) -> dg.Failure:
    reasons = {failure.name: failure.reason for failure in report.failed}
    others = f"{report.created} others were published"
    return final_failure(f"{what}: {len(reasons)} ZIPs cannot be published, {others}", reasons)
