"""The checks between a load and its publication, and those of the site's status.

Each belongs to one table, so that it can be seen and run alone; the work is done in
`pipelines.site.audits`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import dagster as dg

from pipelines.assets.keys import INDEX, table_key
from pipelines.partitions import partitions_of_run
from pipelines.site.audits import (
    Audit,
    byte_problems,
    gap_problems,
    gather,
    height_problems,
    key_problems,
    row_problems,
)
from pipelines.site.site import Site
from pipelines.site.status import EMPTY_STATUS, SiteStatus, site_status
from transforms.blocks import BlockRange
from transforms.tables.registry import HISTORY_TABLES

LAG = "blocks_behind"
REFUSED = "no_file_refused"
_MEANINGS = {
    LAG: "Blocks by which the archive is behind the newest segment.",
    REFUSED: "The source has no file that cannot be used; otherwise each with its reason.",
}
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


def status_checks(lag_blocks: int) -> list[dg.AssetChecksDefinition]:
    """The warnings of a status: how far behind the archive is, and what cannot be used."""
    return [_status_check(evaluate) for evaluate in _evaluators(lag_blocks)]


def status_evaluations(status: SiteStatus, lag_blocks: int) -> list[dg.AssetCheckEvaluation]:
    """The same, for a sensor to report without a run."""
    return [evaluate(status) for evaluate in _evaluators(lag_blocks)]


_Evaluate = Callable[[SiteStatus], dg.AssetCheckEvaluation]


def _evaluators(lag_blocks: int) -> tuple[_Evaluate, ...]:
    return (lambda status: _lag(status, lag_blocks), _refused)


def _status_check(evaluate: _Evaluate) -> dg.AssetChecksDefinition:
    name = evaluate(EMPTY_STATUS).check_name

    @dg.asset_check(asset=INDEX, name=name, description=_MEANINGS[name])
    def check(site: dg.ResourceParam[Site]) -> dg.AssetCheckResult:
        evaluation = evaluate(site_status(site))
        return dg.AssetCheckResult(
            passed=evaluation.passed, severity=evaluation.severity, metadata=evaluation.metadata
        )

    return check


def _lag(status: SiteStatus, lag_blocks: int) -> dg.AssetCheckEvaluation:
    """Counted in blocks, not in minutes: filling up old history does not make an archive fresh."""
    behind = status.blocks_behind
    return _warning(
        LAG,
        behind <= lag_blocks,
        {"blocks_behind": behind, "segments_to_do": len(status.to_do)},
    )


def _refused(status: SiteStatus) -> dg.AssetCheckEvaluation:
    """Every file of the source that is in quarantine, with its reason."""
    refused = status.refused
    shown = dict(list(refused.items())[:_SHOWN])
    return _warning(REFUSED, not refused, {"files": len(refused), **shown})


def _warning(name: str, passed: bool, metadata: Mapping[str, int | str]) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=INDEX,
        check_name=name,
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=metadata,
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
