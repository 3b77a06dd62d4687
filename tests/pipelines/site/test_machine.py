"""Whether a machine can work is said before anything is begun on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.settings import Settings
from pipelines.site.machine import machine_problem
from pipelines.site.site import Site
from tests.mounts_kit import mounted

ANY_DISK = 10**12
"""More MB than any disk has."""


def test_a_machine_with_room_and_places_that_answer_can_work(settings: Settings) -> None:
    assert machine_problem(Site(settings)) == ""


def test_a_disk_without_room_is_named_with_what_is_left(settings: Settings, tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free // 10**6

    problem = machine_problem(Site(replace(settings, free_mb=ANY_DISK)))

    assert problem.startswith(f"{settings.warehouse} has ")
    left = int(problem.split(" MB")[0].rpartition(" ")[2].replace(",", ""))
    assert left == pytest.approx(free, rel=0.2)
    assert f"a run begins with {ANY_DISK:,}" in problem


def test_a_read_only_disk_is_named_with_what_lets_a_service_write(
    settings: Settings, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    fixed = mounted(f"mount --bind '{cache}' '{cache}' && mount -o remount,ro,bind '{cache}'")
    look = "print(machine_problem(Site(read_locations(Settings))))"
    names = {"machine_problem": "pipelines.site.machine", "Site": "pipelines.site.site"}
    names |= {"read_locations": "exporters.locations", "Settings": "pipelines.settings"}
    imports = "; ".join(f"from {module} import {name}" for name, module in names.items())

    done = subprocess.run(
        [*fixed, sys.executable, "-c", f"{imports}; {look}"],
        env={**os.environ, "STRATA_SOURCE": settings.source, "STRATA_CACHE": str(cache)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.startswith(f"{cache}: Read-only file system: make it writable")
    assert "ReadWritePaths" in done.stdout


def test_of_buckets_only_the_cache_needs_room(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    bucket = "s3://nowhere/at-all"
    settings = Settings(source=bucket, warehouse=bucket, archive=bucket, cache=cache)

    problem = machine_problem(Site(replace(settings, free_mb=ANY_DISK)))

    assert problem.startswith(f"{cache} has ")


def test_a_source_that_is_not_mounted_is_named(settings: Settings) -> None:
    Path(settings.source).rmdir()

    assert machine_problem(Site(settings)) == f"{settings.source} is not there: mount the source"


def test_a_bucket_that_does_not_answer_is_named(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")

    problem = machine_problem(Site(replace(settings, archive="s3://nowhere/at-all")))

    assert "s3://nowhere/at-all" in problem
    assert "127.0.0.1:1" in problem
