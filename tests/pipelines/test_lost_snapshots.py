"""Warehouses that lost newest snapshots of their log, or rows: no command says that all is well."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pipelines.settings import Settings
from tests.pipelines.command_kit import Answer, call, places
from tests.pipelines.kit import make_segment, site_settings
from tests.rollback_kit import RECORD, back_up, grow_old, lose_snapshots, put_back, snapshots
from transforms.sealed import seal, unseal

COUNT = "select count(*) from blocks"
REFUSED = (("status", "--check"), ("load",), ("publish",), ("sql", COUNT), ("run",))


@dataclass(frozen=True)
class History:
    """A site of two segments, of which the source has only the first; `backup` is the older one."""

    folder: Path
    settings: Settings

    @property
    def warehouse(self) -> Path:
        return Path(self.settings.warehouse)

    @property
    def backup(self) -> Path:
        return self.folder / "backup"

    def strata(self, *arguments: str, **variables: str) -> Answer:
        home = str(self.folder / "dagster")
        environment = {**places(self.settings), "STRATA_LAKE": "0", "DAGSTER_HOME": home}
        return call({**environment, **variables}, *arguments)

    def rows(self) -> int:
        return int(json.loads(self.strata("sql", COUNT, "--json").stdout)["rows"][0][0])

    def check_well(self) -> None:
        """Every command is content, and all rows are there."""
        assert self.strata("repair").returncode == 0
        assert [self.strata(name).returncode for name in ("load", "publish", "verify")] == [0, 0, 0]
        assert self.strata("status", "--check").returncode == 0
        assert self.rows() == 20

    def check_refused(self, *reasons: str) -> None:
        """Every command names the repair, which heals the warehouse."""
        for command in REFUSED:
            answer = self.strata(*command)
            assert answer.returncode == 5, (command, answer)
            assert all(each in answer.stderr for each in (*reasons, "run strata repair")), answer
        verified = self.strata("verify", "--json")
        assert verified.returncode == 5
        assert verified.json["findings"][0]["commands"] == ["strata repair"]
        assert self.strata("repair").returncode == 5


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> History:
    folder = tmp_path_factory.mktemp("history")
    history = History(folder, site_settings(folder))
    for number in (0, 1):
        segment = make_segment(history.settings, number)
        assert history.strata("load").returncode == 0
        assert history.strata("publish").returncode == 0
        if not number:
            back_up(history.warehouse, history.backup)
    segment.unlink()
    return history


@pytest.fixture
def history(template: History, tmp_path: Path) -> History:
    shutil.copytree(template.folder, tmp_path, dirs_exist_ok=True)
    return History(tmp_path, replace(site_settings(tmp_path)))


def _lose_one(history: History) -> None:
    lose_snapshots(history.warehouse)


def _put_log_back(history: History) -> None:
    put_back(history.backup / "log", history.warehouse / "log")


def _go_on_elsewhere(history: History) -> None:
    """Lose a snapshot; then a machine that has not seen it commits another one of its number."""
    lose_snapshots(history.warehouse)
    make_segment(history.settings, 2)
    cache, archive = (str(history.folder / name) for name in ("machine", "unknown"))
    loaded = history.strata("load", STRATA_CACHE=cache, STRATA_ARCHIVE=archive)
    assert loaded.returncode == 0
    shutil.rmtree(history.folder / "source")
    (history.folder / "source").mkdir()


@pytest.mark.parametrize(
    ("harm", "reason"),
    [(_lose_one, "was seen: "), (_put_log_back, "was seen: "), (_go_on_elsewhere, "blocks 11-20")],
)
def test_a_log_that_lost_its_newest_snapshots_is_refused_and_repaired(
    history: History, harm: Callable[[History], None], reason: str
) -> None:
    before = int(snapshots(history.warehouse)[-1].stem)
    harm(history)
    history.check_refused(reason)
    assert int(snapshots(history.warehouse)[-1].stem) > before
    if harm is _go_on_elsewhere:
        assert history.rows() == 30
    else:
        history.check_well()


def test_a_folder_in_place_of_the_newest_snapshot_is_found(history: History) -> None:
    newest = snapshots(history.warehouse)[-1]
    newest.unlink()
    newest.mkdir()
    (history.warehouse / RECORD).unlink()
    history.check_refused(f"{newest} is a folder, not a file: run strata repair")
    history.check_well()


def test_whole_volumes_that_the_log_does_not_name_are_reported_after_an_hour(
    history: History,
) -> None:
    lose_snapshots(history.warehouse)
    (history.warehouse / RECORD).unlink()
    unknown = replace(history.settings, archive=str(history.folder / "unknown"))
    machine = History(history.folder, unknown)
    assert "not in the log" not in machine.strata("status", "--check").stdout
    grow_old(history.warehouse / "manifests")
    status = machine.strata("status", "--check")
    assert status.returncode == 1
    assert "1 whole volumes are not in the log: strata repair takes them in" in status.stdout
    findings = history.strata("verify", "--json").json["findings"]
    assert ["strata repair"] in [finding["commands"] for finding in findings]
    assert history.strata("repair").returncode == 5
    history.check_well()


def test_a_warehouse_that_was_loaded_again_is_another_one(history: History) -> None:
    make_segment(history.settings, 1)
    for _ in range(2):
        cache = str(history.folder / "cache")
        assert history.strata("load", STRATA_CACHE=cache).returncode == 0
        assert history.strata("status", STRATA_CACHE=cache).returncode == 0
        shutil.rmtree(history.warehouse)


def test_blocks_that_no_repair_brings_back_are_lost_until_they_are_loaded(
    history: History,
) -> None:
    lose_snapshots(history.warehouse)
    (manifest,) = (history.warehouse / "manifests").glob("*11-*20.*")
    manifest.unlink()
    history.check_refused("was seen: ")
    for command in (("status", "--check"), ("load",), ("publish",), ("run",), ("sql", COUNT)):
        answer = history.strata(*command)
        expected = {"status": 1, "sql": 0}.get(command[0], 5)
        assert answer.returncode == expected, (command, answer)
        said = answer.stdout + answer.stderr
        assert "lacks the blocks 11 to 20, which had been loaded and were lost" in said
        assert "run strata load; strata load --archive ARCHIVE" in said
    status = history.strata("status", "--json").json
    assert status["lost"] == ["the blocks 11 to 20"]
    assert "Rows are still missing: " in history.strata("repair").stdout
    make_segment(history.settings, 1)
    assert history.strata("load").returncode == 0
    history.check_well()


def test_a_backup_of_the_whole_warehouse_is_noticed_by_what_the_archive_recorded(
    history: History,
) -> None:
    put_back(history.backup, history.warehouse)
    history.check_refused("was seen: ")
    status = history.strata("status", "--json").json
    assert status["lost"] == ["the blocks 11 to 20"]
    assert history.strata("load").returncode == 5
    make_segment(history.settings, 1)
    assert history.strata("load").returncode == 0
    history.check_well()


@pytest.mark.parametrize("count", [1, 2])
def test_lost_data_files_count_as_well_after_a_repair(history: History, count: int) -> None:
    """`count` segments are lost, of which the source has none."""
    for segment in (history.folder / "source").iterdir():
        segment.unlink()
    lost = sorted((history.warehouse / "data" / "blocks").iterdir())[-count:]
    for path in lost:
        path.unlink()
    first = 11 if count == 1 else 1
    for repaired in (False, True):
        status = history.strata("status", "--check")
        assert status.returncode == 1
        assert f"lacks the blocks {first} to 20, which had been loaded" in status.stdout
        assert ("run strata repair, then strata load" in status.stdout) != repaired
        codes = [history.strata(name).returncode for name in ("load", "publish", "run")]
        assert codes == [5, 5, 5]
        if not repaired:
            assert history.strata("repair").returncode == 5


def test_a_warehouse_of_an_older_format_is_to_be_made_again(history: History) -> None:
    for path in snapshots(history.warehouse):
        row = unseal(path.read_bytes(), "")
        del row["warehouse"]
        path.write_bytes(seal(row | {"format": 1}))
    for command in (*REFUSED, ("verify",), ("repair",)):
        answer = history.strata(*command)
        assert answer.returncode == 2, answer
        assert "has format 1 and this release reads format 3: load the segments" in answer.stderr
        assert "into a warehouse in a new folder" in answer.stderr


def test_nothing_is_complete_after_blocks_that_are_lost(tmp_path: Path) -> None:
    """The first segment was loaded last, and not published before it was lost."""
    history = History(tmp_path, site_settings(tmp_path))
    make_segment(history.settings, 1)
    assert [history.strata(name).returncode for name in ("load", "publish")] == [0, 0]
    segment = make_segment(history.settings, 0)
    assert history.strata("load").returncode == 0
    segment.unlink()
    assert history.strata("status", "--json").json["complete_until"] == 20
    (data,) = (history.warehouse / "data" / "blocks").glob("*1-*10.*")
    data.unlink()
    for _ in range(2):
        status = history.strata("status", "--json").json
        assert (status["complete_until"], bool(status["lost"])) == (None, True)
        history.strata("repair")
