"""Characters that mean something to somebody, in every path: they work or are refused in words."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.commands import display
from tests.command_kit import run_strata
from tests.pipelines.command_kit import Answer, call
from tests.pipelines.kit import make_segment, site_settings
from tests.segments_kit import KIT_CHAIN

STRATA = Path(sys.executable).parent / "strata"

NOT_UTF8 = os.fsdecode(b"caf\xe9")
COMMANDS = {
    "load": "load",
    "run": "run",
    "status": "status --check",
    "verify": "verify",
    "sql": "sql select(1)",
    "repair": "repair",
    "publish": "publish",
    "export": "export blocks 1 10 --out {out}",
    "copy": "copy {out}/copy.duckdb",
    "fetch": "fetch {archive} --table blocks --out {out}",
    "mirror": "fetch {archive} --all --out {out}",
    "restore": "load --archive {archive}",
}

ODD = ['#%20b% it\'s "so"; [x]*', "-new\nline:&=c@ ünï-日本 $HOME {a}"]


Strata = Callable[..., Answer]


def places(place: Path, **given: Path) -> dict[str, str]:
    """The environment that names a site, and what else is given."""
    variables = {
        "STRATA_SOURCE": place / "source",
        "STRATA_WAREHOUSE": place / "warehouse",
        "STRATA_ARCHIVE": place / "archive",
        "DAGSTER_HOME": place / "home",
        **given,
    }
    return {name: str(path) for name, path in variables.items()}


@pytest.fixture
def strata(monkeypatch: pytest.MonkeyPatch) -> Strata:
    """Call the command line in this process: what a process adds is the same for every path.

    How far it has come is not told, however slow the machine is: that is no complaint.
    """
    monkeypatch.setattr(display, "_LINE_SECONDS", 3600.0)
    return lambda place, *arguments, **given: call(places(place, **given), *arguments)


def process(place: Path, *arguments: str, **given: Path) -> subprocess.CompletedProcess[str]:
    """Call it as people do."""
    environment = {**os.environ, **places(place, **given)}
    return subprocess.run([STRATA, *arguments], env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site that is loaded and published, with its lake."""
    place = tmp_path_factory.mktemp("whole")
    make_segment(site_settings(place), 0)
    for command in ("load", "publish"):
        assert call(places(place), command).returncode == 0
    return place


@pytest.mark.parametrize("name", ODD)
def test_what_works_works_in_every_place(tmp_path: Path, strata: Strata, name: str) -> None:
    place = tmp_path / name
    make_segment(site_settings(place), 0)

    for arguments in (
        ("load",),
        ("publish",),
        ("sql", "select count(*) from blocks", "--json"),
        ("run",),
        ("verify",),
    ):
        answer = strata(place, *arguments)
        assert (answer.returncode, answer.stderr) == (0, ""), (arguments, answer.stderr)
    out = ("--out", str(place / "exports"))
    done = process(place, "export", "blocks", "1", "10", *out)
    assert (done.returncode, done.stderr) == (0, "")
    assert (place / "exports" / f"{KIT_CHAIN}-blocks-1-10.zip").exists()
    assert {path.name for path in tmp_path.iterdir()} == {name}


def test_a_question_mark_works_where_no_database_lies(tmp_path: Path, strata: Strata) -> None:
    place = tmp_path / "a?b"
    make_segment(site_settings(place), 0)
    warehouse = tmp_path / "warehouse"

    for arguments in (("load",), ("publish",), ("verify",)):
        answer = strata(place, *arguments, STRATA_WAREHOUSE=warehouse)
        assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize("name", ["a?b", "back\\slash"])
@pytest.mark.parametrize("command", ["load", "status", "sql"])
def test_a_warehouse_that_duckdb_cannot_open_is_refused_before_anything_is_written(
    tmp_path: Path, strata: Strata, name: str, command: str
) -> None:
    make_segment(site_settings(tmp_path), 0)
    before = set(tmp_path.rglob("*"))

    for given in ({"STRATA_WAREHOUSE": tmp_path / name}, {"STRATA_CACHE": tmp_path / name}):
        arguments = (command, *(["select 1"] if command == "sql" else []))
        answer = strata(tmp_path, *arguments, **given)
        assert answer.returncode == 2
        assert "DuckDB opens no files there: name another folder" in answer.stderr
        assert len(answer.stderr.splitlines()) == 1
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("variable", "commands", "is_refused"),
    [
        ("STRATA_SOURCE", "load run status", True),
        ("STRATA_SOURCE", "sql publish", False),
        ("STRATA_WAREHOUSE", "load run status sql verify repair", True),
        ("STRATA_CACHE", "load publish", True),
        ("STRATA_ARCHIVE", "publish run status verify export fetch mirror restore", True),
        ("STRATA_ARCHIVE", "load sql", False),
        ("DAGSTER_HOME", "run", False),
        ("TMPDIR", "run mirror", False),
        ("out", "export fetch", False),
        ("out", "copy mirror", True),
    ],
)
def test_a_path_that_is_not_utf8_works_or_is_named(
    whole: Path, tmp_path: Path, variable: str, commands: str, is_refused: bool
) -> None:
    place, odd = tmp_path / "place", tmp_path / NOT_UTF8
    shutil.copytree(whole, place)
    archive = odd if variable == "STRATA_ARCHIVE" else place / "archive"
    names = {"archive": archive, "out": odd if variable == "out" else tmp_path / "out"}
    names["out"].mkdir()
    usual = variable.removeprefix("STRATA_").lower()
    if (place / usual).exists():
        (place / usual).rename(odd)
    else:
        odd.mkdir(exist_ok=True)

    for command in commands.split(" "):
        arguments = COMMANDS[command].format(**names).split(" ")
        answer = call({**places(place, **{variable: odd}), "STRATA_LAKE": "0"}, *arguments)

        if is_refused:
            assert (answer.returncode, answer.stdout) == (2, ""), command
            assert NOT_UTF8.encode("ascii", "backslashreplace").decode() in answer.stderr
            assert "is not UTF-8: name another folder" in answer.stderr
            assert "Traceback" not in answer.stderr
        else:
            assert answer.returncode == 0, answer.stderr


def test_relative_places_in_a_folder_that_is_not_utf8_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / NOT_UTF8
    folder.mkdir()
    environment = {name: text for name, text in os.environ.items() if "STRATA" not in name}

    for arguments in (["load"], ["publish"], ["status"], ["sql", "select 1"], ["verify"]):
        answer = run_strata(*arguments, environment=environment, folder=folder)
        assert (answer.returncode, answer.stdout) == (2, "")
        assert "is not UTF-8: name another folder" in answer.stderr
    assert not list(folder.iterdir())


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8"])
def test_names_that_a_terminal_cannot_show_are_escaped(tmp_path: Path, encoding: str) -> None:
    make_segment(site_settings(tmp_path), 0)
    for name in ("日本.zip", os.fsdecode(b"\xe9.zip")):
        (tmp_path / "source" / name).write_bytes(b"no ZIP")
    shown = "日本.zip".encode(encoding, "backslashreplace")

    environment = {**os.environ, **places(tmp_path), "PYTHONIOENCODING": encoding}
    done = subprocess.run([STRATA, "status"], env=environment, capture_output=True)

    assert (done.returncode, done.stderr) == (0, b"")
    assert shown in done.stdout
    assert b"\\udce9.zip" in done.stdout


@pytest.mark.parametrize(
    ("name", "odd"), [("a?b", "?"), ("a%2Fb", "%2F"), ("50%20b", "%20"), ("%e9", "%e9")]
)
def test_a_dagster_home_that_sqlite_cannot_open_is_refused(
    tmp_path: Path, strata: Strata, name: str, odd: str
) -> None:
    make_segment(site_settings(tmp_path), 0)
    before = {*tmp_path.iterdir()}

    answer = strata(tmp_path, "run", DAGSTER_HOME=tmp_path / name / "home")

    assert answer.returncode == 2
    assert f"Dagster opens no files in a folder with a {odd} in its path" in answer.stderr
    assert {*tmp_path.iterdir()} - before <= {tmp_path / "warehouse"}


def test_a_dagster_home_with_other_percent_signs_works(tmp_path: Path, strata: Strata) -> None:
    make_segment(site_settings(tmp_path), 0)
    home = tmp_path / "100% #1 &%zz"

    answer = strata(tmp_path, "run", DAGSTER_HOME=home)

    assert answer.returncode == 0, answer.stderr
    assert (home / "history" / "runs.db").exists()


def test_a_folder_named_like_the_file_of_views_is_named(tmp_path: Path, strata: Strata) -> None:
    make_segment(site_settings(tmp_path), 0)
    views = tmp_path / "warehouse" / "current.duckdb"
    views.mkdir(parents=True)

    answer = strata(tmp_path, "load")

    assert answer.returncode == 7
    assert answer.stderr == (
        f"strata: {views}: Is a directory: a folder has the name of our file: "
        "rename or remove it, then run it again\n"
    )
    views.rmdir()
    assert strata(tmp_path, "load").returncode == 0
    assert views.is_file()


def test_a_warehouse_has_at_most_400_bytes_in_its_path(tmp_path: Path, strata: Strata) -> None:
    make_segment(site_settings(tmp_path), 0)
    half = tmp_path / ("d" * 150)
    longest = half / ("d" * (399 - len(str(half))))

    for arguments in (("load",), ("publish",), ("verify",)):
        answer = strata(tmp_path, *arguments, STRATA_WAREHOUSE=longest)
        assert (answer.returncode, answer.stderr) == (0, ""), arguments
    for warehouse in (Path(f"{longest}d"), half / "/".join(["d" * 200] * 19)):
        for command in ("load", "publish", "status", "sql select"):
            answer = strata(tmp_path, *command.split(), STRATA_WAREHOUSE=warehouse)
            assert answer.returncode == 2, command
            assert "the path of a warehouse has at most 400 bytes, and /" in answer.stderr
            assert f" has {len(str(warehouse))}: name a folder with a shorter" in answer.stderr
    answer = strata(
        tmp_path, "publish", STRATA_WAREHOUSE=longest, STRATA_ARCHIVE=half / ("d" * 300)
    )
    assert answer.returncode == 7
    assert "File name too long: name a folder with a shorter path" in answer.stderr


def test_packages_of_others_with_our_names_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("api", "exporters", "pipelines", "transforms"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for command in ("serve", "run"):
        done = process(tmp_path, command, "--help")
        assert (done.returncode, done.stderr) == (0, ""), command
