"""The lake as Dagster and the command line make it, show it and leave it alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import dagster as dg
import pytest
from deltalake import DeltaTable

from pipelines.instance import open_instance
from pipelines.running import FinishedRun, run_everything
from pipelines.settings import Settings
from pipelines.site.segment_status import site_status
from pipelines.site.site import Site
from tests.lake_readers import PyarrowLake
from tests.pipelines.command_kit import Answer, call, places
from tests.pipelines.kit import blocks, make_segment, site_settings
from tests.segments_kit import KIT_CHAIN, entry_bytes
from transforms.tables.registry import HISTORY_TABLES


@dataclass(frozen=True)
class Run:
    """What `strata run` made of two segments."""

    settings: Settings
    home: Path
    segments: list[Path]
    runs: list[FinishedRun]

    @property
    def folder(self) -> Path:
        return Path(self.settings.archive, KIT_CHAIN)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("ran")
    settings = replace(site_settings(folder), lake=True)
    segments = [make_segment(settings, number) for number in range(2)]
    runs: list[FinishedRun] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", "put back after the tests")
        site = Site(settings)
        run_everything(site, site_status(site), folder / "home", runs.append)
        yield Run(settings, folder / "home", segments, runs)


def strata(settings: Settings, *arguments: str, **given: str) -> Answer:
    return call({**places(settings), **given}, *arguments)


def _check(folder: Path, segments: list[Path]) -> None:
    """The lake renders every table of these segments of ten blocks."""
    read = PyarrowLake(folder / "lake")
    receipts = read.receipts()
    assert len(receipts) == len(segments) * len(HISTORY_TABLES)
    for receipt in receipts:
        assert read.csv(receipt) == entry_bytes(segments[receipt.first // 10], receipt.table)


def test_a_run_publishes_to_the_lake_what_it_loads(ran: Run) -> None:
    assert [one.failure for one in ran.runs] == [""] * len(ran.runs)
    _check(ran.folder, ran.segments)


def test_dagster_shows_every_segment_of_the_lake(ran: Run) -> None:
    key = dg.AssetKey(["lake", "tables"])
    with open_instance(ran.home) as instance:
        assert instance.get_materialized_partitions(key) == {one.key for one in blocks(0, 1)}


def test_index_and_page_name_the_lake(ran: Run) -> None:
    index = json.loads((ran.folder / "index.json").read_bytes())
    assert index["lake"] == {"format": "delta", "path": "lake"}
    assert "lake/manifests" in (ran.folder / "index.html").read_text()


def test_publishing_says_what_was_added_and_then_that_nothing_is_lacking(
    ran: Run, tmp_path: Path
) -> None:
    settings = replace(ran.settings, archive=str(tmp_path / "archive"))
    assert strata(settings, "publish", STRATA_LAKE="0").returncode == 0
    first = strata(settings, "publish", "--json", STRATA_LAKE="1")
    again = strata(settings, "publish", STRATA_LAKE="1")

    facts = json.loads(first.stdout)["lake"]
    assert (first.returncode, facts["refused"]) == (0, {})
    files = [*Path(settings.archive, KIT_CHAIN, "lake").glob("*/*.parquet")]
    assert files
    assert (again.returncode, again.stdout.splitlines()[-1:]) == (
        0,
        ["The lake has all that is published."],
    )
    _check(tmp_path / "archive" / KIT_CHAIN, ran.segments)


def test_whoever_wants_no_lake_has_none(ran: Run, tmp_path: Path) -> None:
    settings = replace(ran.settings, archive=str(tmp_path / "archive"))

    assert strata(settings, "publish", STRATA_LAKE="0").returncode == 0

    chain = tmp_path / "archive" / KIT_CHAIN
    assert (chain / "index.json").exists()
    assert not (chain / "lake").exists()
    assert "lake" not in json.loads((chain / "index.json").read_bytes())
    assert "lake/" not in (chain / "index.html").read_text()


@pytest.mark.parametrize("name", ["ünï-日本 #b% s", "a?b"])
def test_a_lake_lies_in_any_folder(ran: Run, tmp_path: Path, name: str) -> None:
    site = Site(replace(ran.settings, archive=str(tmp_path / name / "archive")))

    for arguments in (("publish",), ("verify",)):
        answer = strata(site.settings, *arguments, STRATA_LAKE="1")
        assert (answer.returncode, answer.stderr) == (0, ""), (arguments, answer)

    assert [path.name for path in tmp_path.iterdir()] == [name]
    chain = tmp_path / name / "archive" / KIT_CHAIN
    _check(chain, ran.segments)
    held = DeltaTable(str(chain / "lake" / "blocks"))
    assert held.to_pyarrow_dataset().count_rows() == 20
