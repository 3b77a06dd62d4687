"""The jobs: what can be launched by name, from the interface, a schedule or the command line."""

from pathlib import Path

import dagster as dg

from pipelines.assets import keys
from pipelines.retries import retried_if_transient
from pipelines.site.site import Site
from pipelines.site.verifying import verify_site

load = dg.define_asset_job(
    "load",
    selection=dg.AssetSelection.groups(keys.WAREHOUSE),
    description="Load segments into the warehouse and check them; publish nothing.",
)

# Windows have a job of their own: they are about all segments, not about those of a run.
_EXPORTS = dg.AssetSelection.groups(keys.ARCHIVE) - dg.AssetSelection.assets(keys.WINDOWS)

publish = dg.define_asset_job(
    "publish",
    selection=_EXPORTS,
    description="Publish the exports of segments that are loaded, and the index.",
)

load_and_publish = dg.define_asset_job(
    "load_and_publish",
    selection=dg.AssetSelection.groups(keys.WAREHOUSE) | _EXPORTS,
    description="Everything, for the segments of a run: load, check, publish, index.",
)

publish_windows = dg.define_asset_job(
    "publish_windows",
    selection=dg.AssetSelection.assets(keys.WINDOWS),
    description="Publish the wider ZIPs that have become due.",
)


compact = dg.define_asset_job(
    "compact",
    selection=dg.AssetSelection.assets(keys.VOLUMES),
    description="Merge small neighbouring volumes; readers and loads go on meanwhile.",
)


load_captures = dg.define_asset_job(
    "load_captures",
    selection=dg.AssetSelection.assets(keys.CAPTURES),
    description="Load new spam captures of the source.",
)


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
    warnings: list[str] = []

    def warn(text: str) -> None:
        context.log.warning(text)
        warnings.append(text)

    with retried_if_transient(context.retry_number):
        asked = (config.table, config.from_block, config.to_block)
        layout = site.export(*asked, None, warn).layout
        path = Path(config.out) / layout.name
        layout.write(path)
    context.add_output_metadata(
        {
            "path": dg.MetadataValue.path(path),
            "bytes": layout.size,
            "members": [member.name for member in layout.members],
            "rows": sum(member.rows for member in layout.members),
            "warnings": warnings,
        }
    )


@dg.job(description="Write one table over any aligned range of blocks as a ZIP.")
def export_range() -> None:
    """One op; its configuration is the request."""
    write_export()


@dg.op
def prove_everything(context: dg.OpExecutionContext, site: dg.ResourceParam[Site]) -> None:
    """Read archive and warehouse again and hold them against each other."""
    with retried_if_transient(context.retry_number):
        findings = list(verify_site(site))
    for finding in findings:
        context.log.error(str(finding))
    if findings:
        raise dg.Failure(
            f"{len(findings)} findings: {'; '.join(map(str, findings[:20]))}", allow_retries=False
        )


@dg.job(description="Prove hashes, CRCs, rows and index of archive and warehouse by reading them.")
def verify() -> None:
    """One op that fails where something does not match."""
    prove_everything()


ALL = (
    *(load, publish, load_and_publish, publish_windows),
    *(load_captures, compact, export_range, verify),
)
"""Every job."""
