"""The checks of the tables, which show what the load established.

A segment that the load does not prove is not in the warehouse, so nothing is decided here again.
"""

from collections.abc import Iterable, Iterator

import dagster as dg

from pipelines.assets.keys import table_key
from pipelines.site.loading import LoadOutcome
from transforms.tables.registry import HISTORY_TABLES

EQUAL = "equals_source"
# One check of a table, as one load decides all of it, and each check is three events of a run.
_OF_TABLE = (
    "The load counted as many rows as the source has, rendered them to the source's very bytes, "
    "and found no primary key in several rows"
)
_OF_BLOCKS = ", and each height once"
_GAP = dg.AssetCheckSpec(
    "no_gap_before",
    asset=table_key("blocks"),
    description="No blocks are missing right before a segment. What lies behind a gap is right and "
    "published all the same; the index lists the gap.",
)
_SHOWN = 20  # gaps named in a check's description


def check_specs() -> list[dg.AssetCheckSpec]:
    """One check of each history table, and that of gaps."""
    specs = [
        dg.AssetCheckSpec(
            EQUAL,
            asset=table_key(table),
            description=f"{_OF_TABLE}{_OF_BLOCKS if table == 'blocks' else ''}.",
        )
        for table in HISTORY_TABLES
    ]
    return [*specs, _GAP]


def load_checks(
    keys: Iterable[dg.AssetCheckKey], outcome: LoadOutcome
) -> Iterator[dg.Output[None] | dg.AssetCheckEvaluation]:
    """What a load of all segments of a run established.

    These events are what Dagster makes of a result, but for the asset's newest materialization. It
    would ask for that for each check, which is a twelfth of a run of one segment. Without it the
    interface goes by the times of both.
    """
    for key in sorted(keys):
        spec = dg.AssetCheckSpec(key.name, asset=key.asset_key)
        yield dg.Output(None, spec.get_python_identifier())
        yield _gaps_before(outcome) if key == _GAP.key else _established(key, outcome)


def _established(key: dg.AssetCheckKey, outcome: LoadOutcome) -> dg.AssetCheckEvaluation:
    """That each segment is loaded, as only what holds is, with its table's rows and bytes."""
    receipts = [each for each in outcome.receipts if each.table == key.asset_key.path[-1]]
    return dg.AssetCheckEvaluation(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=True,
        metadata={
            "segments": len(receipts),
            "rows": sum(receipt.rows for receipt in receipts),
            "bytes": sum(receipt.bytes for receipt in receipts),
        },
    )


def _gaps_before(outcome: LoadOutcome) -> dg.AssetCheckEvaluation:
    """The blocks that no segment has, right before one of these segments."""
    gaps = [
        f"no segment holds blocks {gap}, before block {gap.last + 1}" for gap in outcome.gaps_before
    ]
    return dg.AssetCheckEvaluation(
        asset_key=_GAP.asset_key,
        check_name=_GAP.name,
        passed=not gaps,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(gaps[:_SHOWN]) or None,
        metadata={"segments": len(outcome.segments), "gaps": len(gaps)},
    )
