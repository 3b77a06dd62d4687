"""What people install: the wheel, in an environment of its own, with few packages and with all."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.exporters.fetching.archives import make_archive
from tests.pipelines.kit import make_segment, site_settings
from tests.web_kit import web_server
from tests.wheel_kit import INSTALLED, closure, make_environment, packages


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and what its base depends on, and nothing else."""
    return make_environment(tmp_path_factory.mktemp("environment"))


def run(
    environment: Path, *arguments: object, **variables: str
) -> subprocess.CompletedProcess[str]:
    command = [str(environment / "bin/strata"), *map(str, arguments)]
    return subprocess.run(
        command,
        cwd=environment,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_installs_one_package_and_needs_few(environment: Path) -> None:
    names = {path.name for path in packages(environment).iterdir()}
    ours = {name for name in names if not (packages(environment) / name).is_symlink()}
    assert {name for name in ours if not name.endswith(".dist-info")} == {"strata"}
    assert closure("strata", packages(environment)) - {"strata"} == {
        *("click", "isal", "jinja2", "markupsafe"),
        *("cffi", "cryptography", "pycparser", "py-minisign", "typing-extensions", "urllib3"),
    }


def test_it_fetches_with_what_its_base_depends_on(environment: Path, tmp_path: Path) -> None:
    with web_server(make_archive(tmp_path)) as url:
        given = ("--table", "orders", "--out", tmp_path / "got", "--json")
        done = run(environment, "fetch", url, *given)
        everything = run(environment, "fetch", url, "--all", "--out", tmp_path / "mirror")
    assert done.returncode == everything.returncode == 0, done.stderr + everything.stderr
    assert Path(json.loads(done.stdout)["path"]).is_file()


def test_what_is_not_installed_is_listed_and_says_what_to_install(environment: Path) -> None:
    told = run(environment, "--help")
    assert told.returncode == 0, told.stderr
    assert re.search(r"fetch +Fetch published ZIPs", told.stdout)
    refused = run(environment, "load", "--source", "x")
    assert refused.returncode == 2
    assert re.fullmatch(
        r"strata: this needs \w+, which is not installed: pip install 'strata\[pipeline\]'\n",
        refused.stderr,
    )
    assert run(environment, "--version").stdout.startswith("strata, version ")


def test_with_all_packages_it_loads_and_publishes(environment: Path, tmp_path: Path) -> None:
    # The packages of this environment, but not what is installed here as the repository lies.
    link = packages(environment) / "all.pth"
    link.write_text(f"{INSTALLED}\n")
    settings = site_settings(tmp_path)
    make_segment(settings, 0)
    places = {
        "STRATA_SOURCE": settings.source,
        "STRATA_WAREHOUSE": str(settings.warehouse),
        "STRATA_ARCHIVE": settings.archive,
        "DAGSTER_HOME": str(tmp_path / "home"),
    }
    try:
        done = run(environment, "run", **places)
        assert done.returncode == 0, done.stderr
        assert "api" in run(environment, "serve", "--help", **places).stdout.lower()
        python = [str(environment / "bin/python"), "-c", "import pipelines"]
        assert subprocess.run(python, cwd=environment, capture_output=True).returncode == 1
    finally:
        link.unlink()
