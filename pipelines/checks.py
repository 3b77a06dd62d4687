"""The checks that stand between a load and its publication, and the one that watches the lag.

Each belongs to one table, so that it can be seen and run alone; `pipelines.audits` does the work.
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from pipelines.assets.archive import INDEX
from pipelines.assets.warehouse import table_key
from pipelines.audits import (
    Audit,
    byte_problems,
    gap_problems,
    gather,
    height_problems,
    key_problems,
    row_problems,
)
from pipelines.partitions import partitions_of_run
from pipelines.site import Site
from pipelines.standing import Standing, standing_of
from transforms.registry import HISTORY_TABLES
from transforms.segments import BlockRange

LAG = "blocks_behind"
_SHOWN = 20  # problems named in a check's description

AUDITS: dict[str, Audit] = {
    "rows_equal_receipt": row_problems,
    "bytes_equal_source": byte_problems,
    "primary_keys_unique": key_problems,
    "heights_contiguous": height_problems,
    "no_gap_before": gap_problems,
}
"""Every check by name. The last two are about the heights and belong to `blocks` alone."""

_BLOCKS_ONLY = ("heights_contiguous", "no_gap_before")
# A gap does not make what lies behind it wrong: that is published, and the archive lists the gap.
_WARNINGS = ("no_gap_before",)


def check_specs() -> list[dg.AssetCheckSpec]:
    """Three checks of each history table, and those of the heights."""
    return [
        dg.AssetCheckSpec(name, asset=table_key(table), blocking=name not in _WARNINGS)
        for table in HISTORY_TABLES
        for name in AUDITS
        if table == "blocks" or name not in _BLOCKS_ONLY
    ]


def publication_gate() -> dg.AssetChecksDefinition:
    """All checks over the segments of a run; over everything loaded where there is no run range."""

    @dg.multi_asset_check(name="checks", specs=check_specs(), can_subset=True)
    def checks(
        context: dg.AssetCheckExecutionContext, site: dg.ResourceParam[Site]
    ) -> Iterator[dg.AssetCheckResult]:
        keys = partitions_of_run(context)
        wanted = frozenset(map(BlockRange.from_key, keys)) if keys else None
        with gather(site, wanted) as evidence:
            for key in sorted(context.selected_asset_check_keys):
                problems = list(AUDITS[key.name](evidence, key.asset_key.path[-1]))
                yield _result(key, problems, len(evidence.segments))

    return checks


def lag_check(lag_blocks: int) -> dg.AssetChecksDefinition:
    """Warns where the archive is more than `lag_blocks` behind the newest segment.

    Counted in blocks, not in minutes: filling up old history does not make an archive fresh.
    """

    @dg.asset_check(asset=INDEX, name=LAG, description="Blocks behind the newest segment.")
    def lag(site: dg.ResourceParam[Site]) -> dg.AssetCheckResult:
        told = lag_evaluation(standing_of(site), lag_blocks)
        return dg.AssetCheckResult(
            passed=told.passed, severity=told.severity, metadata=told.metadata
        )

    return lag


def lag_evaluation(standing: Standing, lag_blocks: int) -> dg.AssetCheckEvaluation:
    """The same, for a sensor to report without a run."""
    behind = standing.blocks_behind
    return dg.AssetCheckEvaluation(
        asset_key=INDEX,
        check_name=LAG,
        passed=behind <= lag_blocks,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"blocks_behind": behind, "segments_to_do": len(standing.to_do)},
    )


def _result(key: dg.AssetCheckKey, problems: Sequence[str], segments: int) -> dg.AssetCheckResult:
    warning = key.name in _WARNINGS
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=not problems,
        severity=dg.AssetCheckSeverity.WARN if warning else dg.AssetCheckSeverity.ERROR,
        description="; ".join(problems[:_SHOWN]) or None,
        metadata={"segments": segments, "problems": len(problems)},
    )
