from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from exporters.locations import (
    Amount,
    Locations,
    Natural,
    Positive,
    Style,
    Switch,
    dagster_home,
    data_folder,
    read_group,
    read_locations,
    set_for_library,
)
from exporters.zip_names import NameStyle
from tests.cases import each_of
from transforms.errors import ConfigError


@dataclass(frozen=True)
class Group:
    lines: Positive = 3
    waiting: Natural = 0
    seconds: Amount = 1.5
    loud: Switch = False
    style: Style = NameStyle.SPEC


def test_nothing_set_means_the_embedded_sample() -> None:
    locations = read_locations(Locations, {})

    assert locations == Locations()
    assert locations.source == "strata-data/source"
    assert locations.warehouse == "strata-data/warehouse"


def test_variables_are_read_and_options_beat_them() -> None:
    environment = {
        "STRATA_SOURCE": "s3://bucket/segments",
        "STRATA_WAREHOUSE": "/data/warehouse",
        "STRATA_ARCHIVE": "s3://bucket/exports",
        "STRATA_NAME_STYLE": "reference",
    }

    assert read_locations(
        Locations, environment, archive="/exports", warehouse=None, source=""
    ) == Locations(
        source="s3://bucket/segments",
        warehouse="/data/warehouse",
        archive="/exports",
        name_style=NameStyle.REFERENCE,
    )


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_variable_is_not_set(text: str) -> None:
    assert read_locations(Locations, {"STRATA_SOURCE": text}) == Locations()
    assert read_group(Group, "G_", {"G_LINES": text}) == Group()


def test_a_home_folder_is_found_by_its_sign() -> None:
    found = read_locations(Locations, {"STRATA_CACHE": "~/strata"})

    assert found.cache == Path.home() / "strata"


def test_what_is_given_beats_the_variable_which_beats_the_default() -> None:
    environment = {"G_LINES": "5", "G_SECONDS": " 2.25 ", "G_LOUD": "1", "G_STYLE": "reference"}

    found = read_group(
        Group, "G_", environment, overrides={"lines": 7, "loud": None}, defaults={"seconds": 9.0}
    )

    assert found == Group(lines=7, seconds=2.25, loud=True, style=NameStyle.REFERENCE)
    assert read_group(Group, "G_", {}, defaults={"seconds": 9.0}) == Group(seconds=9.0)


def test_the_environment_of_the_process_is_read_unless_another_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STRATA_ARCHIVE", "/from/the/process")

    assert read_locations(Locations).archive == "/from/the/process"
    assert read_locations(Locations, {}).archive == "strata-data/archive"


@each_of(
    ("variable", "text", "wanted"),
    [
        ("LINES", "0", "a whole number from 1 up"),
        ("LINES", "many", "a whole number from 1 up"),
        ("LINES", "1.5", "a whole number from 1 up"),
        ("LINES", "²", "a whole number from 1 up"),
        ("WAITING", "-1", "a whole number from 0 up"),
        ("SECONDS", "inf", "a number from 0 up"),
        ("SECONDS", "-1", "a number from 0 up"),
        ("SECONDS", "soon", "a number from 0 up"),
        ("LOUD", "yes", "1 (on) or 0 (off)"),
        ("LOUD", "2", "1 (on) or 0 (off)"),
        ("STYLE", "padded", "one of spec, reference"),
    ],
)
def test_a_setting_that_cannot_be_used_names_its_variable(
    variable: str, text: str, wanted: str
) -> None:
    with pytest.raises(ConfigError) as error:
        read_group(Group, "G_", {f"G_{variable}": text})

    assert str(error.value) == f"G_{variable} is '{text}': give {wanted}"


def test_each_source_has_a_data_folder_of_its_own() -> None:
    sources = ["/a/segments", "/b/segments", "s3://bucket/segments", "s3://other/segments", "/"]

    folders = {data_folder(source) for source in sources}

    assert len(folders) == len(sources)
    assert all(folder.parent == Path("strata-data") for folder in folders)


def test_a_folder_is_the_same_source_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert data_folder("segments") == data_folder(str(tmp_path / "segments" / ""))


def test_warehouse_and_archive_lie_in_the_data_folder_of_the_source() -> None:
    found = read_locations(Locations, {"STRATA_SOURCE": "s3://bucket/prefix"})

    folder = data_folder("s3://bucket/prefix")
    assert (found.warehouse, found.archive) == (str(folder / "warehouse"), str(folder / "archive"))


def test_dagster_lives_where_its_variable_says_or_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert dagster_home({"DAGSTER_HOME": "/var/dagster"}) == Path("/var/dagster")
    assert dagster_home({}) == tmp_path / "dagster_home"


def test_a_variable_for_a_library_may_leave_what_the_user_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "/users")

    set_for_library("DAGSTER_HOME", "/ours", unless_set=True)
    assert dagster_home() == Path("/users")

    set_for_library("DAGSTER_HOME", "/ours")
    assert dagster_home() == Path("/ours")
