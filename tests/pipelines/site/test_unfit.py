"""No way to publish takes a segment that fails a blocking check; the others go on."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from exporters.publishing.publication import Outcome
from exporters.publishing.replace import Correction
from pipelines.batches import Batch
from pipelines.definitions import definitions
from pipelines.instance import add_partitions
from pipelines.run_requests import batch_tags
from pipelines.settings import Settings
from pipelines.site import audits
from pipelines.site.publishing import publish_segments, replace_published
from pipelines.site.site import Site
from pipelines.site.unfit import unfit
from tests.pipelines.command_kit import call, places
from tests.pipelines.kit import blocks, load, make_segment, one_key_twice, site_settings
from tests.segments_kit import KIT_CHAIN, block_rows, columns, table_rows
from transforms.tables.registry import HISTORY_TABLES

WRONG_HEIGHTS = "segment 11-20: its table blocks has 10 rows with 10 heights from 12 to 21"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three loaded segments, of which the second has the heights of others."""
    settings = site_settings(tmp_path_factory.mktemp("model"))
    make_segment(settings, 0)
    make_segment(settings, 1, tables={"blocks": (columns("blocks"), list(block_rows(12, 21)))})
    make_segment(settings, 2)
    load(Site(settings))
    return Path(settings.source).parent


@pytest.fixture
def wrong(model: Path, tmp_path: Path) -> Site:
    """A copy of the model."""
    return Site(site_settings(shutil.copytree(model, tmp_path / "copy")))


def published(site: Site) -> set[str]:
    folder = Path(site.settings.archive, KIT_CHAIN, "blocks")
    return {path.name for path in folder.glob("*.zip")}


def test_a_segment_of_other_heights_is_unfit_and_only_that(wrong: Site) -> None:
    assert unfit(wrong, blocks(0, 1, 2)) == {blocks(1)[0]: (WRONG_HEIGHTS,)}
    assert unfit(wrong, blocks(0, 2)) == {}
    assert unfit(wrong, ()) == {}


def test_heights_count_whichever_table_is_published(wrong: Site) -> None:
    assert unfit(wrong, blocks(1), ["trades"]) == {blocks(1)[0]: (WRONG_HEIGHTS,)}


def test_a_key_of_several_rows_is_put_down_to_its_segment(settings: Settings, site: Site) -> None:
    for number in (0, 1, 2):
        make_segment(settings, number, tables=one_key_twice(1) if number == 1 else {})
    load(site)

    (found,) = unfit(site, blocks(0, 1, 2)).items()

    assert found[0] == blocks(1)[0]
    assert found[1][0].startswith("segment 11-20: orders has several rows for vega_time")
    assert unfit(site, blocks(1), ["trades"]) == {}


def test_what_is_refused_and_published_does_not_depend_on_batches(tmp_path: Path) -> None:
    """All segments have one order again, the third has it twice."""
    tables = ("blocks", "orders", "trades")  # the others are as empty as the last of these
    once = {"vega_time": "2023-01-01 00:00:00+00", "seq_num": "1"}
    outcomes = []
    for batches in ([[0, 1, 2, 3]], [[3], [0, 2], [1]]):
        settings = site_settings(tmp_path / str(len(batches)))
        site = Site(settings)
        for batch in batches:
            for number in batch:
                rows = [{**once, "size": str(number)}] * (1 + (number == 2))
                orders = table_rows("orders", *rows)
                make_segment(settings, number, tables={"orders": orders})
            load(site)
            publish_segments(site, blocks(*batch), tables)
        chain = Path(settings.archive, KIT_CHAIN)
        zips = {path.name: path.read_bytes() for path in chain.glob("*/*.zip")}
        outcomes.append(([*unfit(site, blocks(0, 1, 2, 3))], zips))

    assert outcomes[0] == outcomes[1]
    refused, zips = outcomes[0]
    assert refused == [*blocks(2)]
    assert len(zips) == 3 * len(tables)


def test_publishing_leaves_it_out_and_says_why(wrong: Site) -> None:
    outcome = publish_segments(wrong, blocks(0, 1, 2))

    (refused,) = outcome.report.failed
    assert (refused.name, refused.outcome, refused.reason) == (
        "segment 11-20",
        Outcome.REFUSED,
        WRONG_HEIGHTS,
    )
    assert outcome.report.created == 2 * len(HISTORY_TABLES)
    assert published(wrong) == {f"{KIT_CHAIN}-blocks-{span}.zip" for span in ("1-10", "21-30")}


def test_replacing_leaves_it_out_and_says_why(wrong: Site) -> None:
    correction = Correction("a test", datetime.now(UTC))

    reports = replace_published(wrong, blocks(0, 1, 2), HISTORY_TABLES, correction)

    assert [one.reason for report in reports for one in report.failed] == [WRONG_HEIGHTS]
    assert published(wrong) == {f"{KIT_CHAIN}-blocks-{span}.zip" for span in ("1-10", "21-30")}
    only = replace_published(wrong, blocks(1), HISTORY_TABLES, correction)
    assert [one.name for report in only for one in report.failed] == ["segment 11-20"]


def test_load_and_publish_by_hand_refuse_it_too(wrong: Site) -> None:
    environment = places(wrong.settings)

    for _ in range(2):
        answer = call(environment, "publish", "--json")
        assert answer.returncode == 1, answer.stderr
        assert answer.json["failed"] == [{"file": "segment 11-20", "reason": WRONG_HEIGHTS}]
    assert len(published(wrong)) == 2


def test_a_dagster_step_that_publishes_alone_refuses_it_too(wrong: Site) -> None:
    batch = Batch(blocks(0, 1, 2))
    with dg.DagsterInstance.ephemeral() as instance:
        add_partitions(instance, blocks(0, 1, 2))
        result = (
            definitions(wrong.settings)
            .resolve_job_def("publish")
            .execute_in_process(
                instance=instance,
                tags=batch_tags(batch),
                resources={"site": wrong},
                raise_on_error=False,
            )
        )

    assert not result.success
    failures = [
        event.step_failure_data.user_failure_data
        for event in result.filter_events(lambda event: event.is_step_failure)
    ]
    assert any(one is not None and WRONG_HEIGHTS in str(one.description) for one in failures)
    assert len(published(wrong)) == 2


def test_what_a_run_found_is_not_looked_for_again(
    settings: Settings, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (0, 1):
        make_segment(settings, number)
    load(site)
    with audits.gather(site, frozenset(blocks(0, 1))) as evidence:
        for check in audits.CHECKS:
            for table in check.tables:
                assert audits.found_by(evidence, check, table) == ()
    monkeypatch.setattr("pipelines.site.unfit.gather", lambda *_: pytest.fail("opened again"))

    assert unfit(site, blocks(0, 1)) == {}
