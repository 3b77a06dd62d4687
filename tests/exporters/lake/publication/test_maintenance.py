"""What a lake holds is kept few, new and right: merging, sweeping, current state, corrections."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from exporters.lake.lake_files import Lake
from exporters.publishing.replace import Correction
from pipelines.site.lake_publishing import publish_to_lake
from pipelines.site.publishing import replace_published
from pipelines.site.segment_status import site_status
from pipelines.site.site import Site
from pipelines.site.site_check import verify_site
from tests.exporters.lake.lake_kit import LakeSite, history_tables, lake_site, write_segment
from tests.lake_readers import age, log_actions
from tests.pipelines.kit import blocks
from tests.segments_kit import entry_bytes, table_rows
from transforms.block_range import BlockRange
from transforms.verifying.verification import Verification

ALL = blocks(0, 1, 2, 3)
WHY = Correction("the node had dumped another row", datetime(2026, 1, 2, tzinfo=UTC))


def _source(folder: Path, *, reference: str = "as it was") -> Path:
    """Four segments, each with orders and one party more than the one before."""
    for number in range(4):
        first = number * 10 + 1
        cells = {"reference": reference if number == 2 else "same", "expires_at": "infinity"}
        tables = {
            "orders": table_rows("orders", cells, {"price": "9" * 78}, first=first),
            "parties": table_rows("parties", *[{}] * (number + 1), first=first),
        }
        write_segment(folder, first, tables, states=["parties"])
    return folder


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LakeSite:
    """Four segments, each in files of its own."""
    folder = tmp_path_factory.mktemp("loaded")
    made = lake_site(folder, _source(folder / "source"), batch=1)
    made.load()
    made.publish_zips()
    assert not made.publish()
    return made


@pytest.fixture(scope="module")
def corrected(tmp_path_factory: pytest.TempPathFactory) -> LakeSite:
    """The same blocks with another row of orders in the third segment."""
    folder = tmp_path_factory.mktemp("corrected")
    made = lake_site(folder, _source(folder / "source", reference="as it is"), batch=1)
    made.load()
    return made


@pytest.fixture
def lake(loaded: LakeSite, tmp_path: Path) -> LakeSite:
    """The same once more, to be changed."""
    return loaded.copied(tmp_path)


def _merge(lake: LakeSite) -> dict[str, str]:
    lake.site.warehouse.compact(most_partial=1)
    tables = history_tables(lake.site)
    return tables.follow()


def _sweep(lake: LakeSite) -> list[str]:
    """Sweep it; the files of rows that were removed."""
    before = set(lake.folder.glob("*/*.parquet"))
    assert not Lake(lake.site.archive(lake.chain)).sweep()
    gone = before - set(lake.folder.glob("*/*.parquet"))
    return sorted(path.relative_to(lake.folder.parent).as_posix() for path in gone)


def _rows(lake: LakeSite, table: str, version: int | None = None) -> pl.DataFrame:
    frame = pl.scan_delta(str(lake.folder / table), version=version).drop("_raw", strict=False)
    first = "first_block" if table == "manifests" else "_segment"
    return frame.sort(first, maintain_order=True).collect()


def test_merging_leaves_fewer_files_in_one_version_and_the_same_rows(lake: LakeSite) -> None:
    tables = ("blocks", "orders", "manifests")
    before, rows = lake.versions(), {table: _rows(lake, table) for table in tables}

    assert not _merge(lake)

    after = lake.versions()
    merged = {table for table in tables if after[table] > before[table]}
    assert merged == {*tables}
    assert all(lake.spans(table) == ["1-40"] for table in tables)
    for table in tables:
        assert _rows(lake, table).equals(rows[table])
        assert _rows(lake, table, before[table]).equals(rows[table])  # who reads it goes on
    for table in merged:
        assert after[table] == before[table] + 1
    assert not _merge(lake)
    lake.check(*ALL)
    assert not lake.publish()
    assert lake.versions() == after


def test_rows_whose_zips_are_not_published_take_no_place(
    lake: LakeSite, corrected: LakeSite, tmp_path: Path
) -> None:
    before = lake.files("orders")
    other = corrected.elsewhere(Path(lake.site.settings.archive), folder=tmp_path / "other")

    other.publish()

    after = lake.files("orders")
    assert [old == new for old, new in zip(before, after, strict=True)] == [
        False,
        False,
        True,
        False,
    ]  # the third segment is published otherwise than it is loaded there


def test_what_was_merged_is_removed_a_week_later_and_not_before(lake: LakeSite) -> None:
    old = lake.files("orders")
    _merge(lake)
    new = lake.files("orders")
    assert len(new) < len(old)
    assert _sweep(lake) == []

    age(lake.folder / "orders", 8)

    gone = {f"lake/orders/{name}" for name in set(old) - set(new)}
    assert set(_sweep(lake)) == gone
    there = {path.name for path in (lake.folder / "orders").glob("*.parquet")}
    assert there == set(new)
    assert _sweep(lake) == []
    lake.check(*ALL)


def test_files_that_nobody_names_are_removed_a_week_later_if_they_are_ours(lake: LakeSite) -> None:
    trades = lake.folder / "blocks"
    ours = trades / "41-50.0123456789abcdef.parquet"
    theirs = (trades / "notes.parquet", trades / "readme.txt")
    for path in (ours, *theirs):
        path.write_bytes(b"left over")
    assert _sweep(lake) == []

    age(lake.folder / "blocks", 8)

    assert _sweep(lake) == ["lake/blocks/41-50.0123456789abcdef.parquet"]
    assert not ours.exists()
    assert all(path.exists() for path in theirs)
    lake.check(*ALL)


def test_current_state_is_that_of_the_newest_segment_whoever_publishes_then(
    lake: LakeSite, tmp_path: Path
) -> None:
    assert lake.spans("parties") == ["31-40"]
    assert len(_rows(lake, "parties")) == 4
    older = lake_site(tmp_path / "older", tmp_path / "few", batch=1)
    write_segment(tmp_path / "few", 1, {"parties": table_rows("parties", {})}, states=["parties"])
    older.load()
    before = lake.versions()

    replace(older, site=older.elsewhere(Path(lake.site.settings.archive)).site).publish()

    assert lake.versions() == before
    assert len(_rows(lake, "parties")) == 4


def test_newer_current_state_takes_the_place_of_the_older_in_one_version(tmp_path: Path) -> None:
    lake = lake_site(tmp_path, tmp_path / "source", batch=1)
    for number in range(2):
        first = number * 10 + 1
        parties = table_rows("parties", *[{}] * (number + 1), first=first)
        write_segment(tmp_path / "source", first, {"parties": parties}, states=["parties"])
        lake.load()
        lake.publish_zips()
        lake.publish()

    assert lake.spans("parties") == ["11-20"]
    assert lake.versions()["parties"] == 1
    assert [len(_rows(lake, "parties", version)) for version in (0, 1)] == [1, 2]


def test_current_state_is_written_again_when_its_rows_change_and_is_proven_as_of_now(
    tmp_path: Path,
) -> None:
    lake = lake_site(tmp_path, tmp_path / "source", batch=1)
    spans = []
    for number, rows in enumerate((1, 1, 2)):
        parties = table_rows("parties", *[{}] * rows)
        first = number * 10 + 1
        write_segment(tmp_path / "source", first, {"parties": parties}, states=["parties"])
        lake.load()
        lake.publish_zips()
        lake.publish()
        spans += lake.spans("parties")
        assert list(verify_site(lake.site, Verification())) == []

    assert spans == ["1-10", "1-10", "21-30"]
    assert lake.versions()["parties"] == 1
    dumped = hashlib.sha256(entry_bytes(next((tmp_path / "source").glob("*-21-30.zip")), "parties"))
    (name,) = lake.files("parties")
    assert name.endswith(f".{dumped.hexdigest()}.parquet")


def _let_an_hour_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time() + 3601
    monkeypatch.setattr(time, "time", lambda: now)


def test_current_state_is_published_hourly_and_none_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_site(tmp_path, tmp_path / "source", batch=1)
    for number, spans in enumerate((["1-10"], ["1-10"])):
        parties = table_rows("parties", *[{}] * (number + 1))
        first = number * 10 + 1
        write_segment(tmp_path / "source", first, {"parties": parties}, states=["parties"])
        assert site_status(lake.site).to_do == (BlockRange(first, first + 9),)
        lake.load()
        lake.publish_zips()
        assert not publish_to_lake(lake.site, lake.site.loaded_catalog().blocks)
        assert lake.spans("parties") == spans
        assert site_status(lake.site).to_do == ()

    _let_an_hour_pass(monkeypatch)
    (newest,) = site_status(lake.site).to_do
    assert newest == BlockRange(11, 20)
    assert not publish_to_lake(lake.site, [newest])
    assert lake.spans("parties") == ["11-20"]
    assert site_status(lake.site).to_do == ()
    _let_an_hour_pass(monkeypatch)
    assert site_status(lake.site).to_do == ()


def test_current_state_is_published_as_often_as_the_setting_says(tmp_path: Path) -> None:
    hourly = lake_site(tmp_path, tmp_path / "source", batch=1)
    lake = LakeSite(Site(replace(hourly.site.settings, state_seconds=0)))
    for number in range(2):
        first = number * 10 + 1
        parties = table_rows("parties", *[{}] * (number + 1))
        write_segment(tmp_path / "source", first, {"parties": parties}, states=["parties"])
        lake.load()
        lake.publish_zips()
        assert not publish_to_lake(lake.site, lake.site.loaded_catalog().blocks)
        assert lake.spans("parties") == [f"{first}-{first + 9}"]


def test_a_correction_replaces_the_files_of_what_differs(
    lake: LakeSite, corrected: LakeSite
) -> None:
    other = corrected.elsewhere(Path(lake.site.settings.archive), batch=1)
    versions = lake.versions()
    replace_published(other.site, ALL[2:], ["orders"], WHY)

    assert not other.publish()

    other.check(*ALL)
    references = _rows(lake, "orders", versions["orders"])["reference"]
    assert "as it was" in references.to_list()  # the version of before stays readable
    changed = [
        action["add"]["dataChange"]
        for action in log_actions(lake.folder / "orders")
        if "add" in action
    ]
    assert changed[-4:] == [True] * 4
    versions = other.versions()
    assert not other.publish()
    assert other.versions() == versions


def test_a_file_that_was_removed_comes_back(lake: LakeSite) -> None:
    rows = _rows(lake, "orders")
    (path, *_) = sorted((lake.folder / "orders").glob("11-20.*.parquet"))
    good = path.read_bytes()
    path.unlink()

    assert not lake.publish()

    assert path.read_bytes() == good
    assert _rows(lake, "orders").equals(rows)
    versions = lake.versions()
    assert not lake.publish()
    assert lake.versions() == versions
    lake.check(*ALL)


def test_a_manifest_that_was_removed_comes_back_with_a_merge(lake: LakeSite) -> None:
    (path, *_) = sorted((lake.folder / "manifests").glob("11-20.*.parquet"))
    path.unlink()

    assert not _merge(lake)

    assert lake.spans("orders") == lake.spans("manifests") == ["1-40"]
    lake.check(*ALL)
