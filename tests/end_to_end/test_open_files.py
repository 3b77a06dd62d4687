"""More volumes than a process may have open files: each command works, or says what to do."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.command_kit import run_strata
from tests.end_to_end.volumes_kit import TABLE, many_volumes
from tests.transforms.warehouse_kit import history_segment

_VOLUMES = 80
# Each table of a query opens each volume once more.
_SEVERAL_TIMES = f"select count(*) from {TABLE} a, {TABLE} b, {TABLE} c"
_ADVICE = "run strata compact, which merges them, or raise the limit (ulimit -n)"


@dataclass(frozen=True)
class Limited:
    """A warehouse, and processes that may open so many files, whatever they ask for."""

    root: Path
    files: int

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_strata(
            *arguments,
            environment={
                f"STRATA_{name.upper()}": name for name in ("source", "warehouse", "archive")
            },
            folder=self.root,
            open_files=self.files,
        )

    def strata(self, *arguments: str) -> str:
        """Run a command that must do what is asked."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def advised(self, *arguments: str) -> str:
        """Run a command that must fail with the one sentence; returns it."""
        done = self.run(*arguments)
        assert done.returncode == 2, done.stdout + done.stderr
        (line,) = done.stderr.splitlines()
        assert line.startswith("strata: the warehouse has ")
        assert line.endswith(_ADVICE)
        return line

    def export(self, last: int) -> bytes:
        (self.root / "out").mkdir(exist_ok=True)
        self.strata("export", TABLE, "1", str(last), "--out", "out")
        return next((self.root / "out").glob(f"*-1-{last}.zip")).read_bytes()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of some volumes, which only copies are made of."""
    root = tmp_path_factory.mktemp("built")
    many_volumes(root, _VOLUMES)
    return root


@pytest.mark.parametrize(
    ("volumes", "files"), [(_VOLUMES, 190), pytest.param(2000, 1024, marks=pytest.mark.crash)]
)
def test_every_command_works_or_advises_to_compact_and_then_all_work(
    built: Path, tmp_path: Path, volumes: int, files: int
) -> None:
    if volumes == _VOLUMES:
        shutil.copytree(built, tmp_path / "warehouse")
    else:
        many_volumes(tmp_path / "warehouse", volumes)
    (tmp_path / "source").mkdir()
    history_segment(tmp_path / "source", first=volumes + 1, last=volumes + 9)
    limited = Limited(tmp_path, files)

    status = json.loads(limited.strata("status", "--json"))
    assert len(status["segments"]["loaded"]) == volumes
    limited.strata("sql", _SEVERAL_TIMES)
    assert f"has {volumes} volumes and this process may open {files}" in limited.advised(
        "serve", "--port", "0", "--no-grpc"
    )
    exported = limited.export(9)

    limited.strata("compact")

    limited.strata("sql", _SEVERAL_TIMES)
    assert limited.export(9) == exported
    limited.strata("load")
    assert json.loads(limited.strata("sql", "select count(*) from blocks", "--json"))["rows"] == [
        [9]
    ]


def test_a_load_merges_what_is_too_much_by_itself(built: Path, tmp_path: Path) -> None:
    shutil.copytree(built, tmp_path / "warehouse")
    (tmp_path / "source").mkdir()
    history_segment(tmp_path / "source", first=_VOLUMES + 1, last=_VOLUMES + 10)
    limited = Limited(tmp_path, 200)

    limited.strata("load")

    limited.strata("sql", _SEVERAL_TIMES)
