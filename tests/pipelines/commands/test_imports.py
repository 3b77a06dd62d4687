"""What a command imports: what it does not use costs every start of it, every few minutes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import each_of
from tests.pipelines.kit import make_segment, site_settings

# What is loaded is in manifests, which are Parquet: nothing else is asked of the warehouse.
MANIFESTS = {"pyarrow"}
# What loads, merges, renders, proves or publishes; and Python's own clients and servers.
WORK = {
    "transforms.warehouse.load.loader",
    "transforms.warehouse.merge.compaction",
    "transforms.warehouse.checks.warehouse_check",
    "transforms.lookups.lookup_tables",
    "exporters.publishing.publication",
    "exporters.exports.range_export",
    "exporters.signing_keys",
    "exporters.lake.publication.history_tables",
    "deltalake",
    "transforms.warehouse.views.catalog_views",
    "transforms.warehouse.views.table_views",
    "pyarrow.compute",
    "asyncio",
    "http.client",
    "urllib.request",
}
COMMANDS = {
    "--help": {"click"},
    "status": {"click", *MANIFESTS, "isal"},
    "fetch": {"click", "isal"},
    "run": {"click", *MANIFESTS, "isal"},
}
_TOLD = """
import json, sys
from strata.cli import main
try:
    main(sys.argv[1:])
finally:
    print(json.dumps(list(sys.modules)), file=sys.stderr)
"""
_OURS = {"api", "exporters", "pipelines", "strata", "transforms"}
# Of Python itself, of those who packaged it, of editable installs, and of Cython.
_OF_NOBODY = (
    *("__", "_sysconfigdata", "_distutils", "sitecustomize", "usercustomize"),
    *("_cython", "_virtualenv", "cython_runtime"),
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A site of which everything is published, with a lake; a command has nothing new to do."""
    folder = tmp_path_factory.mktemp("site")
    settings = site_settings(folder)
    make_segment(settings, 0)
    environment = {
        **os.environ,
        "STRATA_SOURCE": settings.source,
        "STRATA_WAREHOUSE": settings.warehouse,
        "STRATA_ARCHIVE": settings.archive,
        "DAGSTER_HOME": str(folder / "home"),
    }
    assert "dagster" in imported(environment, "run")
    return environment


def imported(environment: dict[str, str], *arguments: str) -> set[str]:
    """The names of all modules that a command has imported in an interpreter of its own."""
    command = [sys.executable, "-c", _TOLD, *arguments]
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return set(json.loads(process.stderr.splitlines()[-1]))


@each_of("command", COMMANDS)
def test_a_command_imports_no_package_that_it_does_not_use(
    command: str, environment: dict[str, str], tmp_path: Path
) -> None:
    place = (environment["STRATA_ARCHIVE"], "--table", "orders", "--out", str(tmp_path))

    modules = imported(environment, command, *(place if command == "fetch" else ()))

    packages = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names - _OURS
    others = {name for name in packages if not name.startswith(_OF_NOBODY)}
    assert others <= COMMANDS[command]
    assert modules & WORK == set()
