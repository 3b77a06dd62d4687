"""The units of `dagster_home/systemd`, as systemd itself reads them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNITS = sorted(path.name for path in (ROOT / "dagster_home" / "systemd").glob("*.service"))
TIMERS = sorted(path.name for path in (ROOT / "dagster_home" / "systemd").glob("*.timer"))
MOST_EXPOSED = 20
"""Tenths; systemd calls everything below 5.0 sound. What is left is the network, and `/`."""

pytestmark = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The units, with the programs of this checkout."""
    folder = tmp_path / "units"
    shutil.copytree(ROOT / "dagster_home" / "systemd", folder)
    for path in folder.rglob("*.*"):
        if path.is_file():
            path.write_text(path.read_text().replace("/opt/strata", str(ROOT)))
    return folder


def analyze(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_systemd_finds_nothing_wrong_with_them(folder: Path) -> None:
    done = analyze(folder, "verify", "--man=no", *UNITS, *TIMERS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_systemd_finds_what_is_wrong(folder: Path) -> None:
    common = folder / "strata-.service.d" / "common.conf"
    common.write_text(common.read_text().replace("ProtectClock=true", "ProtectClocks=true"))
    worker = folder / "strata-worker.service"
    worker.write_text(worker.read_text().replace("bin/dagster-celery", "bin/nothing"))

    done = analyze(folder, "verify", "--man=no", *UNITS)

    assert "ProtectClocks" in done.stderr
    assert "nothing is not executable" in done.stderr


@pytest.mark.parametrize("unit", UNITS)
def test_a_service_reaches_little_of_its_machine(folder: Path, unit: str) -> None:
    done = analyze(folder, "security", "--offline=true", f"--threshold={MOST_EXPOSED}", unit)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("unit", UNITS)
def test_a_service_is_started_again_and_has_time_to_stop(folder: Path, unit: str) -> None:
    common = (folder / "strata-.service.d" / "common.conf").read_text()
    own = (folder / unit).read_text()
    assert "\nRestart=always\n" in common
    assert re.search(r"^KillSignal=SIGTERM$", own, re.M)
    assert re.search(r"^TimeoutStopSec=(30|60|15min)$", own, re.M)


def test_what_a_timer_starts_reaches_the_socket_in_tmp_and_ends(folder: Path) -> None:
    """Its own settings come after those that hold for all services."""
    assert TIMERS == ["strata-collect.timer"]
    done = analyze(folder, "security", "--offline=true", "--json=short", "strata-collect.service")
    exposed = {row["name"] for row in json.loads(done.stdout) if not row["set"]}
    assert "PrivateTmp=" in exposed
    own = (folder / "strata-collect.service.d" / "timed.conf").read_text()
    assert "\nType=oneshot\nRestart=no\n" in own
