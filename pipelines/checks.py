"""The checks of the tables, which show what the load established.

A segment that the load does not prove is not in the warehouse, so nothing is decided here again.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import dagster as dg

from pipelines.assets.keys import table_key
from pipelines.partitions import partitions_of_run
from pipelines.site.site import Site
from pipelines.step_failures import retried_if_transient
from transforms.block_range import BlockRange, contiguous_runs, gaps_between
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.receipts import Receipt

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
_SHOWN = 20  # problems named in a check's description


def check_specs() -> list[dg.AssetCheckSpec]:
    """One check of each history table, and that of gaps."""
    specs = [
        dg.AssetCheckSpec(
            EQUAL,
            asset=table_key(table),
            description=f"{_OF_TABLE}{_OF_BLOCKS if table == 'blocks' else ''}.",
            blocking=True,
        )
        for table in HISTORY_TABLES
    ]
    return [*specs, _GAP]


def load_checks() -> dg.AssetChecksDefinition:
    """All checks over the segments of a run; over everything loaded where there is no run range."""

    @dg.multi_asset_check(name="checks", specs=check_specs(), can_subset=True)
    def checks(
        context: dg.AssetCheckExecutionContext, site: dg.ResourceParam[Site]
    ) -> Iterator[dg.Output[None] | dg.AssetCheckEvaluation]:
        keys = partitions_of_run(context)
        receipts: defaultdict[str, list[Receipt]] = defaultdict(list)
        with retried_if_transient(context.retry_number), site.warehouse.one_look():
            catalog = site.loaded_catalog()
            segments = tuple(map(BlockRange.from_key, keys)) if keys else catalog.blocks
            for receipt in site.receipts(segments):
                receipts[receipt.table].append(receipt)
        for key in sorted(context.selected_asset_check_keys):
            if key == _GAP.key:
                evaluation = _gaps_before(catalog, frozenset(segments))
            else:
                evaluation = _established(key, segments, receipts[key.asset_key.path[-1]])
            yield from _events(evaluation)

    return checks


def _events(
    evaluation: dg.AssetCheckEvaluation,
) -> Iterator[dg.Output[None] | dg.AssetCheckEvaluation]:
    """What Dagster makes of a result, but for the asset's newest materialization.

    It would ask for that for each check, which is a twelfth of a run of one segment. Without it the
    interface goes by the times of both.
    """
    spec = dg.AssetCheckSpec(evaluation.check_name, asset=evaluation.asset_key)
    yield dg.Output(None, spec.get_python_identifier())
    yield evaluation


def _established(
    key: dg.AssetCheckKey, segments: Sequence[BlockRange], receipts: Sequence[Receipt]
) -> dg.AssetCheckEvaluation:
    """Whether each segment is loaded, as only what holds is; with its table's rows and bytes."""
    loaded = {receipt.blocks for receipt in receipts}
    absent = [f"segment {blocks} is not loaded" for blocks in segments if blocks not in loaded]
    return dg.AssetCheckEvaluation(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=not absent,
        blocking=True,
        description="; ".join(absent[:_SHOWN]) or None,
        metadata={
            "segments": len(loaded),
            "rows": sum(receipt.rows for receipt in receipts),
            "bytes": sum(receipt.bytes for receipt in receipts),
        },
    )


def _gaps_before(catalog: Catalog, segments: frozenset[BlockRange]) -> dg.AssetCheckEvaluation:
    """The blocks that no segment has, right before one of these segments."""
    # A volume has no gap inside, so that no record is read.
    runs = contiguous_runs(volume.blocks for volume in catalog.history())
    starts = {blocks.first for blocks in segments}
    gaps = [
        f"no segment holds blocks {gap}, before block {gap.last + 1}"
        for gap in gaps_between(runs)
        if gap.last + 1 in starts
    ]
    return dg.AssetCheckEvaluation(
        asset_key=_GAP.asset_key,
        check_name=_GAP.name,
        passed=not gaps,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(gaps[:_SHOWN]) or None,
        metadata={"segments": len(segments), "gaps": len(gaps)},
    )
