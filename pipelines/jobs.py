"""The jobs: what can be launched by name, from the interface, a schedule or the command line."""

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from pipelines.assets import keys
from pipelines.old_runs import remove_old_runs
from pipelines.site.collecting import Collector
from pipelines.site.completing import complete_archive
from pipelines.site.site import Site
from pipelines.step_failures import final_failure, retried_if_transient
from transforms.verifying.verification import Verification

# What reads or writes more than a batch may take longer than a run of `dagster.yaml` does.
_LONG = {"dagster/max_runtime": str(24 * 3600)}
_NAMED_FINDINGS = 20
# A run loads first and publishes then: what is being done is no finding.
_SETTLE_SECONDS = 900.0

load = dg.define_asset_job(
    "load",
    selection=dg.AssetSelection.groups(keys.WAREHOUSE),
    description="Load segments into the warehouse and check them; publish nothing.",
)

_EXPORTS = dg.AssetSelection.groups(keys.ARCHIVE) | dg.AssetSelection.groups(keys.LAKE)

publish = dg.define_asset_job(
    "publish",
    selection=_EXPORTS,
    description="Publish the exports of segments that are loaded, the index, and to the lake.",
)

load_and_publish = dg.define_asset_job(
    "load_and_publish",
    selection=dg.AssetSelection.groups(keys.WAREHOUSE) | _EXPORTS,
    description="Everything, for the segments of a run: load, check, publish, index, lake.",
)


@dg.op
def merge_volumes(context: dg.OpExecutionContext, site: dg.ResourceParam[Site]) -> None:
    """Merge small neighbouring volumes, so that look-ups ask few of them."""
    with retried_if_transient(context.retry_number):
        merged = site.warehouse.compact()
    context.add_output_metadata({"merged": merged})


class ExportRange(dg.Config):
    """One table over `from_block` to `to_block`, both inclusive, as a ZIP in the folder `out`."""

    table: str
    from_block: int
    to_block: int
    out: str


@dg.op
def write_export(
    context: dg.OpExecutionContext, config: ExportRange, site: dg.ResourceParam[Site]
) -> None:
    """Splice the ZIP of a range from the archive's parts (spec 2.8 and 4.1)."""
    from exporters.exports.splice import write_hashed

    with retried_if_transient(context.retry_number):
        request = (config.table, config.from_block, config.to_block)
        layout = site.export(*request, context.log.warning).layout
        path = Path(config.out) / layout.name
        sha256 = write_hashed(layout, path)
    rows = sum(member.rows for member in layout.members)
    context.add_output_metadata(
        {
            "path": dg.MetadataValue.path(path),
            "bytes": layout.size,
            "sha256": sha256,
            "dagster/row_count": rows,
        }
    )


class CheckConfig(dg.Config):
    """How to check: `quick` looks at what no earlier check has proven."""

    quick: bool = False


@dg.op
def prove_everything(
    context: dg.OpExecutionContext, config: CheckConfig, site: dg.ResourceParam[Site]
) -> None:
    """Read archive and warehouse again and hold them against each other."""
    # What proves is half of the product's modules: the runs of every few minutes do without.
    from pipelines.site.site_check import first_findings, summary, verify_site

    with retried_if_transient(context.retry_number):
        check = Verification(config.quick, settle_seconds=_SETTLE_SECONDS)
        findings, number = first_findings(verify_site(site, check))
    for finding in findings:
        context.log.error(str(finding))
    context.log.info(summary(check, number))
    if findings:
        named = "; ".join(map(str, findings[:_NAMED_FINDINGS]))
        raise dg.Failure(f"{number} findings: {named}", allow_retries=False)
    context.add_output_metadata({"summary": summary(check, number)})


@dg.op
def look_at_archive(context: dg.OpExecutionContext, site: dg.ResourceParam[Site]) -> None:
    """Make again what is missing in the archive, and remove what the lake no longer needs."""
    catalog = site.warehouse.catalog()
    if not catalog.snapshot.volumes:
        context.log.info("Nothing is loaded yet.")
        return
    # What is in the lake is nothing that other jobs of every few minutes need.
    from pipelines.site.publication_state import sweep

    with retried_if_transient(context.retry_number):
        completion = complete_archive(site, site.archive(catalog.snapshot.chain_id))
        refused = sweep(site) if site.settings.lake else {}
    context.add_output_metadata({"was_whole": completion.is_nothing})
    named = {each.name: each.reason for each in completion.failed[:_NAMED_FINDINGS]}
    named |= {f"lake table {table}": reason for table, reason in refused.items()}
    if named:
        count = len(completion.failed)
        what = f"{count} ZIPs of the archive are missing or altered, {len(refused)} lake tables bad"
        raise final_failure(what, named)


@dg.op
def remove_runs(context: dg.OpExecutionContext) -> None:
    """Remove runs that ended a week ago."""
    context.add_output_metadata({"removed": remove_old_runs(context.instance, datetime.now(UTC))})


@dg.op
def collect_segments(context: dg.OpExecutionContext, site: dg.ResourceParam[Site]) -> None:
    """Copy what the data node has and the source lacks into the source."""
    collector = Collector(site)
    with retried_if_transient(context.retry_number), collector.alone() as folder:
        outcomes = list(collector.collect(collector.backlog().segments, folder))
    refusals = [f"{one.segment.name}: {one.refusal}" for one in outcomes if one.refusal]
    context.add_output_metadata({"collected": len(outcomes) - len(refusals)})
    if refusals:
        raise dg.Failure("; ".join(refusals[:_NAMED_FINDINGS]), allow_retries=False)


def _job(name: str, description: str, *ops: dg.OpDefinition) -> dg.JobDefinition:
    """A job of ops that do not wait for each other."""
    graph = dg.GraphDefinition(name, node_defs=ops)
    return graph.to_job(description=description, tags=_LONG)


export_range = _job(
    "export_range", "Write one table over any aligned range of blocks as a ZIP.", write_export
)
compact = _job(
    "compact", "Merge small neighbouring volumes; readers and loads go on meanwhile.", merge_volumes
)
complete = _job(
    "complete",
    "Look whether all that was published is there; what is missing is made again, and what the "
    "lake no longer needs, and old runs with their logs, are removed.",
    look_at_archive,
    remove_runs,
)
verify = _job(
    "verify",
    "Prove hashes, CRCs, rows and index of archive and warehouse by reading them.",
    prove_everything,
)
collect = _job(
    "collect", "Copy segments from the data node of STRATA_NODE into the source.", collect_segments
)

ALL = (
    *(load, publish, load_and_publish),
    *(export_range, compact, complete, verify, collect),
)
"""Every job."""
