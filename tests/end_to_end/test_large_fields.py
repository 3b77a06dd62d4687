"""Fields of many megabytes: what loads with so much memory does everything else with it, too."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.command_kit import run_strata
from tests.pipelines.kit import blocks, make_segment, site_settings
from tests.segments_kit import table_rows

_FIELD_BYTES = 20 * 10**6
_LITTLE_MB, _JUST_ENOUGH_MB = 40, 64


def _strata(
    place: Path, *arguments: str, memory_mb: int = _JUST_ENOUGH_MB
) -> subprocess.CompletedProcess[str]:
    """A command on the segments of `place`, whose answer fails the test where it is unexpected."""
    settings = {
        "STRATA_SOURCE": place / "source",
        "STRATA_WAREHOUSE": place / "warehouse",
        "STRATA_ARCHIVE": place / "archive",
        "STRATA_MEMORY_MB": memory_mb,
        "DAGSTER_HOME": place / "home",
    }
    environment = {**os.environ, **{name: str(value) for name, value in settings.items()}}
    return run_strata(*arguments, environment=environment)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two segments with such a field each, loaded with just enough memory for one of them."""
    place = tmp_path_factory.mktemp("large")
    for number in range(2):
        row = {"reference": "x" * _FIELD_BYTES}
        large = table_rows("orders", row, first=blocks(number)[0].first)
        make_segment(site_settings(place), number, tables={"orders": large})
    answer = _strata(place, "load")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return place


@pytest.fixture
def place(loaded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(loaded, tmp_path / "place"))


def test_what_was_loaded_is_published_and_verified_with_the_same_memory(place: Path) -> None:
    null = ("--null", "-", "--out", str(place / "out"))
    for arguments in (
        ("publish",),
        ("export", "orders", "1", "20", *null),
        ("verify",),
        ("compact",),
    ):
        answer = _strata(place, *arguments)
        assert answer.returncode == 0, (arguments, answer.stdout, answer.stderr)


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify",),
        ("publish",),
        ("export", "orders", "1", "10", "--null", "-", "--out", "out"),
    ],
)
def test_too_little_memory_names_the_table_and_the_setting_and_blames_no_file(
    place: Path, arguments: tuple[str, ...]
) -> None:
    shutil.rmtree(place / "warehouse" / "parts")
    answer = _strata(place, *arguments, memory_mb=_LITTLE_MB)
    said = answer.stdout + answer.stderr
    assert answer.returncode == 7, said
    assert "table orders of segments 1-10: DuckDB has no more memory" in answer.stderr
    assert "let STRATA_MEMORY_MB be more" in answer.stderr
    assert "damaged" not in said
