"""A folder, pipe or dangling link in place of a file is named, and nothing waits for it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pipelines.command_kit import Answer, call, places
from tests.pipelines.kit import make_segment, site_settings
from tests.segments_kit import KIT_CHAIN

KINDS: dict[str, Callable[[Path], object]] = {
    "a named pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a link that leads nowhere": lambda path: path.symlink_to("/nowhere/at/all"),
}


def strata(place: Path, *arguments: str) -> Answer:
    return call({**places(site_settings(place)), "STRATA_LAKE": "0"}, *arguments)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("done")
    make_segment(site_settings(place), 0)
    for command in ("load", "publish"):
        assert strata(place, command).returncode == 0
    return place


@pytest.fixture
def place(done: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(done, tmp_path / "place"))


def occupied(place: Path, pattern: str, kind: str) -> Path:
    """Put something else in place of the file of a pattern."""
    (path,) = place.glob(pattern)
    path.unlink()
    KINDS[kind](path)
    return path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("document", ["index.json", "conditions.json"])
def test_a_publication_names_what_stands_in_place_of_a_document(
    place: Path, document: str, kind: str
) -> None:
    path = occupied(place, f"archive/{KIT_CHAIN}/{document}", kind)
    answer = strata(place, "publish")
    assert answer.returncode == 5, answer.stdout + answer.stderr
    assert f"{path} is {kind}, not a file: move it away" in answer.stderr
    assert "others keep" not in answer.stderr


@pytest.mark.parametrize(
    ("pattern", "command", "code"),
    [
        (f"archive/{KIT_CHAIN}/blocks/*.zip", "verify", 5),
        ("warehouse/manifests/*.parquet", "verify", 5),
        ("warehouse/manifests/*.parquet", "load", 5),
        ("warehouse/current.json", "load", 0),
    ],
)
def test_no_command_waits_for_a_named_pipe(
    place: Path, pattern: str, command: str, code: int
) -> None:
    path = occupied(place, pattern, "a named pipe")
    answer = strata(place, command)
    assert answer.returncode == code, answer.stdout + answer.stderr
    if code:
        assert path.name in "".join((answer.stdout + answer.stderr).split())


@pytest.mark.parametrize(
    ("option", "commands"),
    [
        ("--source", ["load", "status"]),
        ("--warehouse", ["load", "publish", "status", "verify", "repair", "sql select"]),
        ("--archive", ["load", "run", "publish", "verify", "copy c.duckdb"]),
    ],
)
def test_a_file_in_place_of_a_folder_is_named(
    place: Path, option: str, commands: list[str]
) -> None:
    file = place / "file"
    file.touch()
    for number, command in enumerate(commands):
        answer = strata(place, *command.split(), option, f"{file}{number % 2 * '/below'}")
        assert answer.returncode == 2, (command, answer.stdout + answer.stderr)
        assert f"{file} is no folder: name one" in answer.stderr, command
    assert file.read_bytes() == b""
