"""What a killed `strata verify` leaves is removed by whoever loads or publishes next."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.command_kit import run_strata
from tests.pipelines.kit import make_segment, site_settings

_STRATA = str(Path(sys.executable).parent / "strata")
_SECONDS = 60


def _left(place: Path) -> list[Path]:
    folder = place / "warehouse" / "scratch"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def test_what_a_killed_verify_leaves_is_swept(tmp_path: Path) -> None:
    make_segment(site_settings(tmp_path), 0)
    places = {f"STRATA_{name.upper()}": str(tmp_path / name) for name in ("source", "warehouse")}
    environment = {**os.environ, **places, "STRATA_ARCHIVE": str(tmp_path / "archive")}
    for command in ("load", "publish"):
        run_strata(command, environment=environment).check_returncode()
    assert _left(tmp_path) == []

    with subprocess.Popen([_STRATA, "verify"], env=environment, stdout=subprocess.PIPE) as verify:
        ends = time.monotonic() + _SECONDS
        while not any(path.is_dir() for path in _left(tmp_path)):
            assert verify.poll() is None, "it ended before it had a folder"
            assert time.monotonic() < ends
            time.sleep(0.001)
        verify.kill()
    assert _left(tmp_path) != []

    run_strata("load", environment=environment).check_returncode()
    assert _left(tmp_path) == []
