"""The checks between a load and its publication, and those of the site's status.

Each belongs to one table, so that it can be seen and run alone; the work is done in
`pipelines.site.audits`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import dagster as dg

from pipelines.assets.keys import INDEX, table_key
from pipelines.partitions import partitions_of_run
from pipelines.retries import retried_if_transient
from pipelines.site.audits import CHECKS, AuditFailure, Check, found_by, gather
from pipelines.site.segment_status import EMPTY_STATUS, SiteStatus, site_status
from pipelines.site.site import LISTED_SECONDS, Site
from transforms.block_range import BlockRange
from transforms.tables.registry import HISTORY_TABLES

LAG = "blocks_behind"
REFUSED = "no_file_refused"
IDS = "id_chain_unbroken"
_MEANINGS = {
    LAG: "Blocks that the source shows and the warehouse lacks, from its first one on.",
    REFUSED: "The source has no file that cannot be used; otherwise each with its reason.",
    IDS: "Every loaded segment was made after the one before it, by the network's own ids.",
}
_SHOWN = 20  # problems named in a check's description

_BY_NAME = {check.name: check for check in CHECKS}


def check_specs() -> list[dg.AssetCheckSpec]:
    """Three checks of each history table, and those of the heights."""
    return [
        dg.AssetCheckSpec(check.name, asset=table_key(table), blocking=check.blocking)
        for table in HISTORY_TABLES
        for check in CHECKS
        if table in check.tables
    ]


def publication_gate() -> dg.AssetChecksDefinition:
    """All checks over the segments of a run; over everything loaded where there is no run range."""

    @dg.multi_asset_check(name="checks", specs=check_specs(), can_subset=True)
    def checks(
        context: dg.AssetCheckExecutionContext, site: dg.ResourceParam[Site]
    ) -> Iterator[dg.AssetCheckResult]:
        keys = partitions_of_run(context)
        segments = frozenset(map(BlockRange.from_key, keys)) if keys else None
        with retried_if_transient(context.retry_number), gather(site, segments) as evidence:
            for key in sorted(context.selected_asset_check_keys):
                check = _BY_NAME[key.name]
                problems = found_by(evidence, check, key.asset_key.path[-1])
                yield _result(key, check, problems, len(evidence.segments))

    return checks


def status_checks(lag_blocks: int) -> list[dg.AssetChecksDefinition]:
    """The warnings of a status: how far behind the warehouse is, and what cannot be used."""
    return [_status_check(evaluate) for evaluate in _evaluators(lag_blocks)]


def status_evaluations(status: SiteStatus, lag_blocks: int) -> list[dg.AssetCheckEvaluation]:
    """The same, for a sensor to report without a run."""
    return [evaluate(status) for evaluate in _evaluators(lag_blocks)]


_Evaluate = Callable[[SiteStatus], dg.AssetCheckEvaluation]


def _evaluators(lag_blocks: int) -> tuple[_Evaluate, ...]:
    return (lambda status: _lag(status, lag_blocks), _refused, _ids)


def _status_check(evaluate: _Evaluate) -> dg.AssetChecksDefinition:
    name = evaluate(EMPTY_STATUS).check_name

    @dg.asset_check(asset=INDEX, name=name, description=_MEANINGS[name])
    def check(site: dg.ResourceParam[Site]) -> dg.AssetCheckResult:
        evaluation = evaluate(site_status(site, LISTED_SECONDS))
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


def _ids(status: SiteStatus) -> dg.AssetCheckEvaluation:
    """From which block to which the chain of ids is unbroken, and all that contradicts it."""
    ids = status.ids
    findings = list(ids.findings())
    unbroken = ", ".join(str(run.blocks) for run in ids.chain.runs[:_SHOWN])
    details = {"unbroken": unbroken or "none", **dict(findings[:_SHOWN])}
    return _warning(IDS, not findings, {"contradictions": len(findings), **details})


def _warning(name: str, passed: bool, metadata: Mapping[str, int | str]) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=INDEX,
        check_name=name,
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=metadata,
    )


def _result(
    key: dg.AssetCheckKey, check: Check, problems: Sequence[AuditFailure], segments: int
) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=not problems,
        severity=dg.AssetCheckSeverity.ERROR if check.blocking else dg.AssetCheckSeverity.WARN,
        description="; ".join(problem.what for problem in problems[:_SHOWN]) or None,
        metadata={"segments": segments, "problems": len(problems)},
    )
