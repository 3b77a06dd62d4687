"""A segment that was published and is loaded with other text: named, corrected, mirrored."""

from __future__ import annotations

import re
import shlex
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipelines.settings import Settings
from tests.pipelines.kit import blocks, make_segment, site_settings
from tests.pipelines.place_kit import Place, placed
from tests.segments_kit import KIT_CHAIN, Table, table_rows

_NUMBERS = (0, 1, 2, 2000, 2001)  # in two shards
_REASON = "a node had written wrong sizes"


def segment(settings: Settings, number: int, *tables: str) -> Path:
    """Write a segment whose tables have two rows, or three if they are named."""
    first = blocks(number)[0].first
    rows: Mapping[str, Table] = {
        table: table_rows(table, *[{}] * (3 if table in tables else 2), first=first)
        for table in ("orders", "trades")
    }
    return make_segment(settings, number, tables=rows)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A published history, with its mirror."""
    folder = tmp_path_factory.mktemp("model")
    settings = site_settings(folder)
    for number in _NUMBERS:
        segment(settings, number)
    with pytest.MonkeyPatch.context() as patch:
        place = placed(settings, patch)
        for words in (["load"], ["publish"], mirroring(place)):
            assert place.run(*words)[0] == 0
    return settings


@pytest.fixture
def place(model: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    shutil.copytree(Path(model.source).parent, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    return placed(site_settings(tmp_path), monkeypatch)


def mirroring(place: Place) -> list[str]:
    return ["fetch", str(place.archive), "--all", "--out", str(place.archive.with_name("mirror"))]


def correct(place: Place, changes: Mapping[int, tuple[str, ...]]) -> None:
    """Correct segments as the documentation says; these tables get another row."""
    for number, tables in changes.items():
        segment(place.settings, number, *tables)
    for manifest in (place.warehouse / "manifests").iterdir():
        manifest.rename(place.warehouse.with_name(manifest.name))
    assert place.run("repair")[0] == 5
    assert place.run("load")[0] == 0


def fetched_rows(place: Place, table: str, number: int) -> int:
    (span,) = blocks(number)
    out = place.archive.with_name(f"fetched-{table}-{number}")
    words = ["--table", table, "--from", str(span.first), "--to", str(span.last)]
    assert place.run("fetch", str(place.archive), *words, "--out", str(out))[0] == 0
    with zipfile.ZipFile(out / f"{KIT_CHAIN}-{table}-{span}.zip") as opened:
        return opened.read(opened.namelist()[0]).count(b"\n") - 1


def replacing(said: str) -> list[str]:
    """The arguments of the command that a sentence names, with a reason."""
    found = re.search(r"strata (publish --replace REASON[^:;\n]*?--blocks \d+-\d+)", said)
    assert found is not None, said
    return [_REASON if word == "REASON" else word for word in shlex.split(found[1])]


def test_a_corrected_segment_is_unpublished_until_the_named_command_replaces_its_files(
    place: Place,
) -> None:
    assert place.run("verify")[0] == 0
    correct(place, {1: ("orders",), 2001: ("orders", "trades")})
    code, said = place.run("publish")
    assert (code, "Nothing new" in said) == (4, False)
    assert said.count("strata publish --replace REASON --table ") == 3
    assert place.run("run")[0] == 1
    assert place.run("verify", "--quick")[0] == 5
    assert place.json("status")[1]["segments"]["published"] == ["1-10", "21-30", "20001-20010"]
    for left in (2, 1):
        code, said = place.run("status", "--check")
        assert code == 1
        assert said.startswith(f"{left} segments are published with other text than loaded: ")
        assert place.run(*replacing(said))[0] == 0
    for words in (["verify"], ["status", "--check"], ["publish"], ["run"], ["verify", "--quick"]):
        assert place.run(*words)[0] == 0, words
    rows = {(t, n): fetched_rows(place, t, n) for t in ("orders", "trades") for n in _NUMBERS}
    assert {part for part, count in rows.items() if count == 3} == {
        *(("orders", 1), ("orders", 2001), ("trades", 2001))
    }


def test_mirrors_take_a_correction_that_names_no_table(place: Place) -> None:
    """All 15 tables of the segment have the new segment's id, and 14 have the text of before."""
    correct(place, {2000: ("trades",)})
    assert place.run("publish", "--replace", _REASON)[0] == 0
    code, said = place.run(*mirroring(place))
    assert code == 0
    assert said.count(_REASON) == 1
    assert place.run(*mirroring(place))[0] == 0
    mirror = place.archive.with_name("mirror")
    assert (
        place.run("verify", "--archive", str(mirror), "--warehouse", str(place.warehouse))[0] == 0
    )


def test_a_segment_of_equal_text_from_another_file_counts_as_published(place: Place) -> None:
    (path,) = (segment(place.settings, 2),)
    with zipfile.ZipFile(path, "a") as opened:
        opened.comment = b"packed anew"
    correct(place, {})
    for words in (["status", "--check"], ["publish"], ["run"], ["verify"]):
        assert place.run(*words)[0] == 0, words
