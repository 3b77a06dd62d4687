"""Commands of a user who may only read the site."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.settings import Settings
from tests.damage_kit import rot
from tests.pipelines.command_kit import call, places
from tests.pipelines.kit import make_segment, site_settings
from tests.pipelines.place_kit import one

_PROJECT = Path(__file__).parents[3]
# The tests' user may be root, whom modes do not bind.
_UNPRIVILEGED = ("setpriv", "--inh-caps=-all", "--bounding-set=-all") if not os.geteuid() else ()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Settings]:
    """A published site without write permissions."""
    settings = site_settings(tmp_path / "site")
    make_segment(settings, 0)
    for command in ("load", "publish"):
        assert call(places(settings), command).returncode == 0
    shutil.rmtree(Path(settings.warehouse, "scratch"), ignore_errors=True)
    paths = [tmp_path / "site", *(tmp_path / "site").rglob("*")]
    modes = {path: path.stat().st_mode for path in paths}
    for path, mode in modes.items():
        path.chmod(mode & 0o555)
    yield settings
    for path, mode in modes.items():
        path.chmod(mode)


def run(site: Settings, *commands: tuple[str, ...]) -> list[tuple[int, str, str]]:
    """Run commands one after the other: their codes, outputs and errors."""
    base = {"environment": {**os.environ, **places(site)}, "folder": str(Path.cwd())}
    asked = (json.dumps({**base, "arguments": words, "open_files": 0}) for words in commands)
    done = subprocess.run(
        [*_UNPRIVILEGED, sys.executable, "-m", "tests.command_server"],
        cwd=_PROJECT,
        input="".join(f"{line}\n" for line in asked),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def contents(site: Settings) -> dict[Path, float]:
    root = Path(site.archive).parent
    return {path: path.stat().st_mtime for path in root.rglob("*") if not path.is_dir()}


def test_a_reader_verifies_a_site_without_writing(site: Settings) -> None:
    before = contents(site)
    every = [("verify", *options) for options in ((), ("--quick",), ("--archive", site.archive))]
    assert [(code, error) for code, _, error in run(site, *every)] == [(0, "")] * 3
    assert contents(site) == before
    paths = [
        one(Path(site.warehouse), "data/blocks/*.parquet"),
        one(Path(site.archive), "*/blocks/*.zip"),
    ]
    for path in paths:
        rot(path)
    ((code, found, _),) = run(site, ("verify", "--json"))
    assert (code, [str(path) in found for path in paths]) == (5, [True, True])


def test_a_reader_relies_on_what_a_load_has_proven(site: Settings) -> None:
    query = ("sql", "select count(*) from blocks", "--json")
    path = one(Path(site.warehouse), "data/blocks/*.parquet")
    rot(path, 5)  # a byte that `count` does not read
    assert [code for code, *_ in run(site, query)] == [0]
    path.touch()
    assert [code for code, *_ in run(site, query)] == [5]
