"""The checks that Dagster shows of the tables: what a load established, segment by segment."""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg
import pytest

from pipelines.assembly import definitions
from pipelines.assets.checks import EQUAL, check_specs
from pipelines.assets.keys import table_key
from pipelines.batches import Batch
from pipelines.instance import add_partitions
from pipelines.run_requests import batch_tags
from pipelines.site.site import Site
from tests.pipelines.kit import blocks, load, make_segment, site_settings


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Segments 0, 1 and 3: the gap is before 3."""
    settings = site_settings(tmp_path_factory.mktemp("loaded"))
    for number in (0, 1, 3):
        make_segment(settings, number)
    load(Site(settings))
    return Site(settings)


def evaluations(site: Site, *numbers: int) -> list[dg.AssetCheckEvaluation]:
    """What a run over segments that are loaded shows of them."""
    job = definitions(site.settings).resolve_job_def("load")
    tags = batch_tags(Batch(blocks(*numbers)))
    with dg.DagsterInstance.ephemeral() as instance:
        add_partitions(instance, blocks(*numbers))
        result = job.execute_in_process(instance=instance, tags=tags, raise_on_error=False)
    return list(result.get_asset_check_evaluations())


def failures(shown: Iterable[dg.AssetCheckEvaluation]) -> set[tuple[str, str | None]]:
    return {(one.check_name, one.description) for one in shown if not one.passed}


def test_checks_ask_dagster_for_no_record_of_a_table(
    loaded: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dg.AssetKey] = []

    def records(
        _instance: dg.DagsterInstance, keys: Iterable[dg.AssetKey] | None = None
    ) -> list[object]:
        asked.extend(keys or ())
        return []

    monkeypatch.setattr(dg.DagsterInstance, "get_asset_records", records)

    assert len(evaluations(loaded, 0)) == len(check_specs())
    # That of the current state; each would be a query for every table of every run.
    assert asked == [table_key("blocks")]


def test_the_checks_of_what_is_loaded_pass_and_count_it(loaded: Site) -> None:
    shown = evaluations(loaded, 0, 1)

    assert {(one.asset_key, one.check_name) for one in shown} == {
        (spec.asset_key, spec.name) for spec in check_specs()
    }
    assert failures(shown) == set()
    (of_blocks,) = (
        one for one in shown if one.asset_key == table_key("blocks") and one.check_name == EQUAL
    )
    receipts = [
        receipt for receipt in loaded.warehouse.receipts(blocks(0, 1)) if receipt.table == "blocks"
    ]
    assert {name: value.value for name, value in of_blocks.metadata.items()} == {
        "segments": 2,
        "rows": 20,
        "bytes": sum(receipt.bytes for receipt in receipts),
    }


def test_a_gap_is_shown_for_the_segment_behind_it_only(loaded: Site) -> None:
    gap = ("no_gap_before", "no segment holds blocks 21-30, before block 31")

    assert failures(evaluations(loaded, 3)) == {gap}


def test_a_segment_that_is_not_loaded_passes_no_check(loaded: Site) -> None:
    assert evaluations(loaded, 1, 2) == []
