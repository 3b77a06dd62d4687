"""A service that ignores conditions, through the commands: refused, and used by a single writer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.end_to_end.machines_kit import Machine
from tests.rclone_kit import rclone_server
from tests.segments_kit import table_rows
from tests.transforms.warehouse_kit import history_segment

ALONE = {"STRATA_SINGLE_WRITER": "1"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder where the service keeps its buckets."""
    folder = tmp_path_factory.mktemp("service")
    for bucket in ("warehouse", "archive"):
        (folder / bucket).mkdir()
    with rclone_server(folder):
        yield folder


@pytest.fixture(scope="module")
def machine(service: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    root = tmp_path_factory.mktemp("machine")
    (root / "source").mkdir()
    rows = table_rows("orders", {}, first=1)
    history_segment(root / "source", first=1, last=10, tables={"orders": rows})
    places = {
        "STRATA_SOURCE": str(root / "source"),
        "STRATA_WAREHOUSE": "s3://warehouse/w",
        "STRATA_ARCHIVE": "s3://archive",
        "HOME": str(root),
    }
    return Machine(root, places)


def test_neither_log_nor_archive_is_written_until_the_operator_says_so(
    machine: Machine, service: Path
) -> None:
    def refused(machine: Machine, command: str) -> None:
        done = machine.run(command)
        assert done.returncode == 2, done.stderr
        assert "PUT with If-None-Match: *" in done.stderr
        assert "STRATA_SINGLE_WRITER=1" in done.stderr

    refused(machine, "load")
    folder = machine.folder / "local"
    local = Machine(folder, {**machine.places, "STRATA_WAREHOUSE": str(folder / "warehouse")})
    local.strata("load")
    refused(local, "publish")
    assert [path for path in service.rglob("*") if path.is_file()] == []


def test_a_single_writer_loads_and_publishes(machine: Machine) -> None:
    alone = replace(machine, places={**machine.places, **ALONE})
    alone.strata("load")
    alone.strata("publish")
    assert alone.json("status")["segments"]["published"] == ["1-10"]
    alone.strata("verify")
