"""Of publishers at once each commits upon the newest version or not at all: nothing is there twice,
and nothing of what one of them was told is there gets lost.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporters.lake.log.table_version import TableVersion
from tests.exporters.lake.log.log_kit import COLUMNS
from tests.exporters.lake.publication.race_worker import lake_at, publish
from tests.weed_kit import shared_server

WRITERS = 4
FEW, MANY = 8, 100
"""Commits of each writer, in the gate and in `make crash-test`."""
SEGMENTS_OF_A_COMMIT = 12
_SPAWN = multiprocessing.get_context("forkserver")
_SPAWN.set_forkserver_preload(
    ["tests.exporters.lake.publication.race_worker", "transforms.stores.s3"]
)


@pytest.fixture(params=["folder", "seaweedfs"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where an archive may be."""
    if request.param == "folder":
        yield str(tmp_path / "archive")
        return
    with shared_server() as server:
        yield f"s3://{server.bucket()}/some/archive"


@pytest.mark.parametrize("commits", [FEW, pytest.param(MANY, marks=pytest.mark.crash)])
def test_of_four_writers_nothing_is_twice_and_nothing_is_lost(
    place: str, tmp_path: Path, commits: int, capsys: pytest.CaptureFixture[str]
) -> None:
    lake_at(place).table("orders").commit(TableVersion(), [], columns=COLUMNS)
    reached = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    count, dice = commits * SEGMENTS_OF_A_COMMIT, random.Random(20261122)
    told = [tmp_path / f"{number}.json" for number in range(WRITERS)]
    processes = [
        _SPAWN.Process(
            target=publish, args=(place, reached, dice.getrandbits(32), commits, count, path)
        )
        for path in told
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    said = [json.loads(path.read_text()) for path in told]
    version = lake_at(place).table("orders").version()
    held = [file.name for file in version.files]  # raises where blocks are there twice
    assert sorted(held) == sorted(name for one in said for name in one["named"])
    assert version.number == WRITERS * commits
    lost = sum(one["lost"] for one in said)
    with capsys.disabled():
        print(f"\n{WRITERS * commits} commits, {lost} races lost and tried again")
