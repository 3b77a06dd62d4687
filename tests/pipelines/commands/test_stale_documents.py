"""Documents of another state than `SHA256SUMS`: whoever takes an archive over tries again later."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from exporters.archive.hash_lists import SUMS, parse_sums
from pipelines.commands.failures import exit_code
from pipelines.settings import Settings
from tests.archive_kit import resealed
from tests.pipelines.kit import make_segment, site_settings
from tests.pipelines.place_kit import Place, placed
from tests.segments_kit import table_rows
from transforms.errors import BusyError, OtherFormatError

_DOCUMENTS = ("index.json", "schema.json", "conditions.json", "latest.json", "revisions.json")
_PUBLIC = ("strata.sql", "strata.duckdb")


def lake_settings(folder: Path) -> Settings:
    return replace(site_settings(folder), lake=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """An archive with a corrected ZIP; `mirror` and `before` are copies without its newest segment.

    The warehouse has the newest segment.
    """
    settings = lake_settings(tmp_path_factory.mktemp("model"))
    with pytest.MonkeyPatch.context() as patch:
        place = placed(settings, patch)
        patch.setenv("STRATA_PUBLIC_URL", "https://archive.example.org")
        for rows in ([{"reference": "wrong"}], [{"reference": "right"}]):
            shutil.rmtree(place.warehouse, ignore_errors=True)
            make_segment(settings, 0, tables={"orders": table_rows("orders", *rows)})
            assert place.run("load")[0] == 0
            place.run("publish")
        assert place.run("publish", "--replace", "It was wrong.", "--table", "orders")[0] == 0
        mirror = str(place.archive.with_name("mirror"))
        assert place.run("fetch", str(place.archive), "--all", "--out", mirror)[0] == 0
        shutil.copytree(place.archive, place.archive.with_name("before"))
        make_segment(settings, 1)
        assert [place.run(command)[0] for command in ("load", "publish")] == [0, 0]
    return settings


@pytest.fixture
def place(model: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    shutil.copytree(Path(model.source).parent, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("STRATA_PUBLIC_URL", "https://archive.example.org")
    return placed(lake_settings(tmp_path), monkeypatch)


def commands(place: Place) -> dict[str, tuple[str, ...]]:
    """Whatever takes an archive over, and the file or folder that it writes."""
    folder, archive = place.archive.parent, str(place.archive)
    return {
        "mirror": ("fetch", archive, "--all", "--out", str(folder / "mirror")),
        "loaded": ("load", "--archive", archive, "--warehouse", str(folder / "loaded")),
        "copy.duckdb": ("copy", str(folder / "copy.duckdb"), "--archive", archive),
    }


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and ".strata" not in str(path))
    return {str(path): path.read_bytes() for path in files}


def check_refused(place: Place, name: str, *names: str) -> None:
    """Commands leave what they have and say to try again; after `publish` they end."""
    mirror = place.archive.with_name("mirror")
    before, used = contents(mirror), [commands(place)[each] for each in ("mirror", *names)]
    for words in used:
        with pytest.raises(BusyError, match=re.escape(f"{place.chain / name} ")) as caught:
            place.run(*words)
        assert exit_code(caught.value) == 6
    assert contents(mirror) == before
    assert not place.archive.with_name("copy.duckdb").exists()
    assert place.run("publish")[0] == 0
    assert [place.run(*words)[0] for words in used] == [0] * len(used)
    assert parse_sums((place.chain / SUMS).read_bytes()).keys() >= {*_DOCUMENTS, *_PUBLIC}


@pytest.mark.parametrize(
    ("name", "others"),
    [("index.json", ["copy.duckdb"]), ("conditions.json", ["loaded"]), ("strata.sql", [])],
)
def test_an_older_document_is_refused_until_the_next_publication(
    place: Place, name: str, others: list[str]
) -> None:
    shutil.copy(place.archive.with_name("before") / place.chain.name / name, place.chain / name)
    check_refused(place, name, *others)


@pytest.mark.parametrize("name", ["schema.json", "revisions.json"])
def test_a_document_with_another_end_is_refused(place: Place, name: str) -> None:
    data = (place.chain / name).read_bytes()
    (place.chain / name).write_bytes(data + b"\n")
    with pytest.raises(BusyError, match=re.escape(str(place.chain / name))):
        place.run(*commands(place)["mirror"])
    (place.chain / name).write_bytes(data)
    assert place.run(*commands(place)["mirror"])[0] == 0


@pytest.mark.parametrize("name", ["latest.json", SUMS])
def test_a_missing_document_is_refused(place: Place, name: str) -> None:
    (place.chain / name).unlink()
    check_refused(place, "index.json" if name == SUMS else name)


def test_a_document_that_is_not_listed_is_not_copied(place: Place) -> None:
    """A server has `strata.sql` for its own address, which the archive does not list."""
    sums = (place.chain / SUMS).read_text().splitlines(keepends=True)
    (place.chain / SUMS).write_text("".join(line for line in sums if "strata." not in line))
    (place.chain / f"{SUMS}.minisig").write_text("signature")
    out = place.archive.with_name("new")
    assert place.run("fetch", str(place.archive), "--all", "--out", str(out))[0] == 0
    copied = out / place.chain.name
    assert not any((copied / name).exists() for name in _PUBLIC)
    assert (copied / SUMS).read_bytes() == (place.chain / SUMS).read_bytes()
    assert (copied / f"{SUMS}.minisig").read_text() == "signature"


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (1, "its keeper publishes the archive again in a new folder"),
        (3, "use a newer release"),
    ],
)
def test_an_archive_of_another_format_is_recognised_and_stays_as_it_is(
    place: Place, number: int, remedy: str
) -> None:
    for path in place.archive.rglob("*.json"):
        data = path.read_bytes()
        if data.startswith(b'{\n"format":2,'):
            other = data.replace(b'"format":2', b'"format":%d' % number, 1)
            path.write_bytes(
                other if number == 1 and path.name == "index.json" else resealed(other)
            )
    before, archive = contents(place.archive), str(place.archive)
    zips = str(place.archive.with_name("zips"))
    for words in (
        *(("status",), ("status", "--check"), ("publish",), ("verify",), ("verify", "--quick")),
        *commands(place).values(),
        ("fetch", archive, "--table", "orders", "--out", zips),
    ):
        sentence = f"has format {number} and this release reads format 2: {remedy}"
        with pytest.raises(OtherFormatError, match=sentence):
            place.run(*words)
        assert contents(place.archive) == before, words
    assert place.run("publish", "--archive", f"{archive}-new")[0] == 0
