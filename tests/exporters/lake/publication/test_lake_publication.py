"""What is published to the lake is there once, whole and exact, whoever published it and when."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable

from exporters.lake.lake_files import Lake
from exporters.lake.log.log_files import checkpoint_bytes, checkpoint_name, parsed_files
from pipelines.site.lake_publishing import publish_to_lake
from pipelines.site.publishing import publish_segments
from tests.exporters.lake.lake_kit import LakeSite, added, history_tables, lake_site, write_segment
from tests.pipelines.kit import blocks
from tests.segments_kit import table_rows
from transforms.tables.column_facts import column_meaning, table_meaning

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
    made = lake_site(folder, folder / "source", batch=2)
    made.load()
    made.publish_zips()
    return made


@pytest.fixture
def lake(loaded: LakeSite, tmp_path: Path) -> LakeSite:
    """The same segments and ZIPs; nothing is in the lake yet."""
    archive = shutil.copytree(loaded.site.settings.archive, tmp_path / "archive")
    return loaded.elsewhere(archive)


def test_publishing_again_changes_nothing_and_elsewhere_gives_the_same_bytes(
    lake: LakeSite, loaded: LakeSite, tmp_path: Path
) -> None:
    assert not lake.publish()
    before = {path: path.read_bytes() for path in lake.folder.rglob("*") if path.is_file()}

    assert not lake.publish()

    assert before == {path: path.read_bytes() for path in lake.folder.rglob("*") if path.is_file()}
    files = [*lake.folder.glob("*/*.parquet")]
    assert len(files) == 2 * len([*_WITH_ROWS, "manifests"])
    lake.check(*ALL)
    other = loaded.elsewhere(shutil.copytree(loaded.site.settings.archive, tmp_path / "other"))
    assert not other.publish()
    for table in (*_WITH_ROWS, "manifests"):
        assert lake.files(table) == other.files(table)  # their names have their hashes


def test_the_log_says_what_tables_and_columns_mean(lake: LakeSite) -> None:
    lake.publish()
    table = DeltaTable(lake.folder / "orders")
    notes = {field.name: field.metadata for field in table.schema().fields}
    assert table.metadata().description == table_meaning("orders")
    assert all(notes[name]["comment"] for name in notes)
    assert notes["price"]["comment"] == column_meaning("orders", "price")
    assert json.loads(notes["side"]["strata.names"])["1"] == "SIDE_BUY"
    assert "strata.names" not in notes["price"]
    manifests = DeltaTable(lake.folder / "manifests")
    assert manifests.metadata().description
    assert not any(field.metadata for field in manifests.schema().fields)

    version = Lake(lake.site.archive(lake.chain)).table("orders").version()
    name = checkpoint_name(version.number)
    assert parsed_files({name: checkpoint_bytes(version)[0]}).metadata == version.metadata


def test_a_volume_comes_once_all_of_it_is_published_whatever_was_there(
    loaded: LakeSite, tmp_path: Path
) -> None:
    lake = loaded.copied(tmp_path)
    tables = history_tables(lake.site, ALL[:1])
    assert not tables.follow()
    assert lake.spans("orders") == lake.spans("manifests") == ["1-20"]
    lake.check(*ALL[:2])

    lake.site.warehouse.compact(1)
    before = lake.versions()
    assert not history_tables(lake.site, []).follow()
    assert lake.versions() == before
    assert not lake.publish()

    assert lake.spans("orders") == ["1-40"]
    assert lake.spans("manifests") == lake.spans("blocks") == lake.spans("orders")
    lake.check(*ALL)


def test_segments_that_are_not_published_as_they_are_loaded_are_named(
    loaded: LakeSite, tmp_path: Path
) -> None:
    lake = loaded.elsewhere(tmp_path / "archive")
    publish_segments(lake.site, ALL[:3])

    refusals = publish_to_lake(lake.site, ALL)

    ((refused, reason),) = refusals.items()
    assert refused == "segment 31-40"
    assert "run strata publish first" in reason
    assert lake.spans("orders") == ["1-20"]


def test_what_others_cut_otherwise_is_replaced_whole_and_never_lost(
    loaded: LakeSite, tmp_path: Path
) -> None:
    """The lake is that of a warehouse with three segments to a volume."""
    lake = loaded.copied(tmp_path / "theirs")
    other = lake_site(tmp_path / "mine", Path(loaded.site.settings.source))
    other.load()
    other = other.elsewhere(Path(lake.site.settings.archive))
    assert not other.publish()
    assert lake.spans("orders") == ["1-30", "31-40"]
    lake.check(*ALL)
    before = lake.versions()
    tables = history_tables(lake.site)
    assert not tables.follow()
    assert lake.spans("orders") == ["1-20", "21-40"]
    assert not tables.follow()  # all is there
    assert {lake.versions()[table] - before[table] for table in ("orders", "manifests")} == {1}

    lake.site.warehouse.compact(1)
    assert not lake.publish()
    assert lake.spans("orders") == ["1-40"]
    lake.check(*ALL)


def test_a_file_that_a_killed_publisher_left_is_taken_up(lake: LakeSite) -> None:
    lake.publish()
    orders = lake.folder / "orders"
    shutil.rmtree(orders / "_delta_log")
    shutil.rmtree(lake.folder / "manifests")
    left = {path.name for path in orders.iterdir()}

    assert not publish_to_lake(lake.site, ALL)

    assert {path.name for path in orders.glob("*.parquet")} == left
    lake.check(*ALL)


def test_a_damaged_file_that_no_version_names_gives_way_to_a_sound_one(lake: LakeSite) -> None:
    """For instance a file that was merged, and is there again with a backup of the warehouse."""
    lake.publish()
    orders = lake.folder / "orders"
    shutil.rmtree(orders / "_delta_log")
    shutil.rmtree(lake.folder / "manifests")
    path = next(orders.glob("*.parquet"))
    whole = path.read_bytes()
    path.unlink()
    path.write_bytes(b"somebody else's")
    assert not publish_to_lake(lake.site, ALL)
    assert path.read_bytes() == whole
    lake.check(*ALL)


def test_new_columns_are_null_in_the_rows_from_before_and_old_versions_stay(
    lake: LakeSite,
) -> None:
    tables = history_tables(lake.site, ALL[:2])
    tables.follow()
    orders = str(lake.folder / "orders")
    old = DeltaTable(orders).version()
    lake.publish()

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

    refusals = lake.publish()

    ((refused, reason),) = refusals.items()
    assert refused == "orders"
    assert "column Peak_Size is string there, and peak_size is long in what" in reason
    assert "nothing is added to this table" in reason
    after = lake.versions()
    assert after["orders"] == before["orders"]
    assert after["manifests"] == before["manifests"]
    assert lake.spans("blocks") == ["1-10", "11-20"]
    lake.check(*blocks(0))


def test_a_column_that_was_retyped_inside_one_batch_is_as_its_file_has_it(tmp_path: Path) -> None:
    source = tmp_path / "source"
    lake = lake_site(tmp_path, source)
    write_segment(source, 1, {"orders": added("orders", ["Peak_Size"], ["1.50"], 1)})
    write_segment(source, 11, {"orders": table_rows("orders", {}, version=6, first=11)}, 6)
    lake.load()
    lake.publish_zips()

    assert not lake.publish()

    schema = pl.scan_delta(str(lake.folder / "orders")).collect_schema()
    assert schema["Peak_Size"] == pl.String
    lake.check(*blocks(0), *blocks(1))
