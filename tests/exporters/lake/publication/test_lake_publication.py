"""What is published to the lake is there once, whole and exact, whoever published it and when."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable

from exporters.lake.publication.lake_publication import LakePublisher
from exporters.lake.reports import LakeReport
from pipelines.site.lake_contents import site_lake
from pipelines.site.lake_publishing import publish_to_lake
from tests.exporters.lake.lake_kit import LakeSite, added, lake_site, write_segment
from tests.pipelines.kit import blocks
from tests.segments_kit import table_rows
from transforms.block_range import BlockRange
from transforms.lake.parquet_rows import lake_rows

ALL = blocks(0, 1, 2, 3)
_WITH_ROWS = ("blocks", "orders")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LakeSite:
    """Four segments with their ZIPs; the last two have columns of orders that are new then."""
    folder = tmp_path_factory.mktemp("loaded")
    for number, version in enumerate((1, 1, 6, 6)):
        first = number * 10 + 1
        cells = [{"reference": f"{number} {row}", "expires_at": "infinity"} for row in range(3)]
        orders = table_rows("orders", *cells, version=version, first=first)
        write_segment(folder / "source", first, {"orders": orders}, version)
    made = lake_site(folder, folder / "source")
    made.load()
    made.publish_zips()
    return made


@pytest.fixture
def lake(loaded: LakeSite, tmp_path: Path) -> LakeSite:
    """The same segments and ZIPs; nothing is in the lake yet."""
    archive = shutil.copytree(loaded.site.settings.archive, tmp_path / "archive")
    return loaded.elsewhere(archive)


def _publish_tables(
    lake: LakeSite, segments: Sequence[BlockRange], tables: Sequence[str]
) -> LakeReport:
    with lake_rows(lake.site.warehouse, segments) as rows:
        publisher = LakePublisher(site_lake(lake.site), rows, segments, lake.site.scratch())
        return publisher.publish(tables)


def test_publishing_again_changes_nothing_and_elsewhere_gives_the_same_bytes(
    lake: LakeSite, loaded: LakeSite, tmp_path: Path
) -> None:
    first = lake.publish()
    before = {path: path.read_bytes() for path in lake.folder.rglob("*") if path.is_file()}

    again = lake.publish()

    assert [file.table for file in first.added] == [*_WITH_ROWS, "receipts"] * 2
    assert (again.added, again.refused, again.merged) == ((), (), 0)
    assert before == {path: path.read_bytes() for path in before}
    assert len(list(lake.folder.glob("*/*.parquet"))) == len(first.added)
    lake.check(*ALL)
    other = loaded.elsewhere(shutil.copytree(loaded.site.settings.archive, tmp_path / "other"))
    assert not other.publish().refused
    for table in (*_WITH_ROWS, "receipts"):
        assert lake.files(table) == other.files(table)  # their names have their hashes


def test_batches_may_overlap_what_is_there(lake: LakeSite) -> None:
    assert not publish_to_lake(lake.site, ALL[1:2]).refused
    assert not publish_to_lake(lake.site, ALL[:3]).refused
    assert not lake.publish().refused

    assert lake.spans("orders") == ["1-30", "31-40"]
    assert lake.spans("receipts") == lake.spans("blocks") == lake.spans("orders")
    lake.check(*ALL)


def test_receipts_come_when_every_table_has_its_rows(lake: LakeSite) -> None:
    early = _publish_tables(lake, ALL[:2], ["orders"])
    assert [file.table for file in early.added] == ["orders"]
    assert lake.spans("orders") == ["1-20"]
    assert not (lake.folder / "receipts").exists()

    _publish_tables(lake, ALL[:3], ["blocks"])
    assert lake.spans("receipts") == ["1-20"]
    _publish_tables(lake, ALL[:3], ["orders"])

    assert lake.spans("orders") == lake.spans("blocks") == ["1-30"]
    assert lake.spans("receipts") == ["1-20", "21-30"]
    lake.check(*ALL[:3])


def test_rows_that_an_earlier_run_left_are_proven_before_there_are_receipts_of_them(
    lake: LakeSite,
) -> None:
    _publish_tables(lake, ALL[:2], ["orders"])
    (name,) = lake.files("orders")
    path = lake.folder / "orders" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)

    report = publish_to_lake(lake.site, ALL[:2])

    (refused,) = report.refused
    assert refused.table == "orders"
    assert f"{name} hashes to" in refused.reason
    assert not (lake.folder / "receipts").exists()


def test_a_file_that_a_killed_publisher_left_is_taken_up(lake: LakeSite) -> None:
    _publish_tables(lake, ALL[:2], ["orders"])
    orders = lake.folder / "orders"
    shutil.rmtree(orders / "_delta_log")
    left = {path.name for path in orders.iterdir()}

    assert not publish_to_lake(lake.site, ALL[:2]).refused

    assert {path.name for path in orders.glob("*.parquet")} == left
    lake.check(*ALL[:2])


def test_other_bytes_under_a_files_name_are_left_alone_and_named(lake: LakeSite) -> None:
    _publish_tables(lake, ALL[:2], ["orders"])
    orders = lake.folder / "orders"
    shutil.rmtree(orders / "_delta_log")
    (path,) = orders.glob("*.parquet")
    path.chmod(0o644)
    path.write_bytes(b"somebody else's")

    report = publish_to_lake(lake.site, ALL[:2])

    (refused,) = report.refused
    assert refused.table == "orders"
    assert "already holds other bytes" in refused.reason
    assert path.read_bytes() == b"somebody else's"
    assert lake.spans("blocks") == ["1-20"]


def test_new_columns_are_null_in_the_rows_from_before_and_old_versions_stay(
    lake: LakeSite,
) -> None:
    publish_to_lake(lake.site, ALL[:2])
    orders = str(lake.folder / "orders")
    old = DeltaTable(orders).version()
    publish_to_lake(lake.site, ALL[2:])

    before = pl.scan_delta(orders, version=old).collect()
    after = pl.scan_delta(orders).collect()
    assert "peak_size" not in before.columns
    assert len(before) == 6
    sizes = after.sort("_segment", "_row").select("_segment", "peak_size").rows()
    assert sizes == [
        (first, value)
        for first, value in ((1, None), (11, None), (21, 0), (31, 0))
        for _ in range(3)
    ]
    lake.check(*ALL)


def test_a_retyped_column_is_refused_in_words_and_all_other_tables_go_on(tmp_path: Path) -> None:
    source = tmp_path / "source"
    lake = lake_site(tmp_path, source)
    # Nobody knows this column in this spelling, so it is text.
    write_segment(source, 1, {"orders": added("orders", ["Peak_Size"], ["1.50"], 1)})
    lake.load()
    lake.publish_zips()
    lake.publish()
    before = lake.versions()
    write_segment(source, 11, {"orders": table_rows("orders", {}, version=6, first=11)}, 6)
    lake.load()
    lake.publish_zips()

    report = lake.publish()

    (refused,) = report.refused
    assert refused.table == "orders"
    assert "column Peak_Size is string there, and long in what is to be added" in refused.reason
    assert "nothing is added to this table" in refused.reason
    after = lake.versions()
    assert after["orders"] == before["orders"]
    assert after["receipts"] == before["receipts"]
    assert lake.spans("blocks") == ["1-10", "11-20"]
    lake.check(*blocks(0))


def test_a_column_that_was_retyped_inside_one_batch_is_refused_too(tmp_path: Path) -> None:
    source = tmp_path / "source"
    lake = lake_site(tmp_path, source)
    write_segment(source, 1, {"orders": added("orders", ["Peak_Size"], ["1.50"], 1)})
    write_segment(source, 11, {"orders": table_rows("orders", {}, version=6, first=11)}, 6)
    lake.load()
    lake.publish_zips()

    (refused,) = lake.publish().refused

    assert refused.table == "orders"
    assert "column peak_size is VARCHAR there, and BIGINT in its newest segment" in refused.reason
    assert not (lake.folder / "orders").exists()
    assert not (lake.folder / "receipts").exists()
    assert lake.spans("blocks") == ["1-20"]
