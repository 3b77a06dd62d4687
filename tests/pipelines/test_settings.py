from __future__ import annotations

from pathlib import Path

import pytest

from exporters.names import NameStyle
from pipelines.settings import Settings, dagster_home, default_data_folder, read_settings
from transforms.errors import ConfigError


def test_nothing_set_means_the_embedded_sample() -> None:
    settings = read_settings(environment={})

    assert settings == Settings()
    assert settings.embedded
    assert settings.warehouse == Path("strata-data/warehouse")


def test_variables_are_read_and_options_beat_them() -> None:
    environment = {
        "STRATA_SOURCE": "s3://bucket/segments",
        "STRATA_WAREHOUSE": "/data/warehouse",
        "STRATA_ARCHIVE": "s3://bucket/exports",
        "STRATA_NAME_STYLE": "reference",
        "STRATA_WINDOW": "10",
        "STRATA_BATCH": "50",
        "STRATA_LAG_BLOCKS": "300",
        "STRATA_POLL_SECONDS": "5",
    }

    assert read_settings(archive="/exports", environment=environment) == Settings(
        source="s3://bucket/segments",
        warehouse=Path("/data/warehouse"),
        archive="/exports",
        names=NameStyle.REFERENCE,
        window=10,
        batch=50,
        lag_blocks=300,
        poll_seconds=5,
    )


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_variable_is_not_set(text: str) -> None:
    assert read_settings(environment={"STRATA_SOURCE": text}).embedded


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("BATCH", "0"),
        ("BATCH", "-1"),
        ("BATCH", "many"),
        ("BATCH", "1.5"),
        ("WINDOW", "-1"),
        ("WINDOW", "²"),
        ("NAME_STYLE", "padded"),
        ("POLL_SECONDS", "0"),
    ],
)
def test_a_setting_that_cannot_be_used_names_its_variable(variable: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"STRATA_{variable} is '{text}'"):
        read_settings(environment={f"STRATA_{variable}": text})


def test_each_source_has_a_data_folder_of_its_own() -> None:
    sources = ["/a/segments", "/b/segments", "s3://bucket/segments", "s3://other/segments", "/"]

    folders = {default_data_folder(source) for source in sources}

    assert len(folders) == len(sources)
    assert all(folder.parent == Path("strata-data") for folder in folders)


def test_a_folder_is_the_same_source_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert default_data_folder("segments") == default_data_folder(str(tmp_path / "segments" / ""))


def test_dagster_lives_where_its_variable_says_or_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert dagster_home({"DAGSTER_HOME": "/var/dagster"}) == Path("/var/dagster")
    assert dagster_home({}) == tmp_path / "dagster_home"
