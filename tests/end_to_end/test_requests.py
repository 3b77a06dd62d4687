"""What one new segment with rows in two tables asks of a bucket, beside few and beside many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.machines_kit import Machine
from tests.end_to_end.test_bucket_warehouse import Cloud, make_cloud, segment
from tests.s3_kit import BucketServer, bucket_server

# Commits after which a table's log is summed up: with as many more, the same tables are at it.
COMMITS = 10
FEW, MANY = 2, 2 + COMMITS
MOST = 150


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as running:
        yield running


def _add(cloud: Cloud, number: int) -> None:
    first = number * 10 + 1
    cloud.add(segment(cloud.root / "made", first, first + 9, states=True))


def _asked(server: BucketServer, machine: Machine) -> int:
    server.door.requests.clear()
    machine.strata("run")
    return len(server.door.requests)


def test_one_new_segment_asks_a_bucket_so_often_at_most_beside_few_and_beside_many(
    server: BucketServer, tmp_path: Path
) -> None:
    cloud = make_cloud(server, tmp_path)
    machine = cloud.machine("a")
    one_by_one = Machine(machine.folder, {**machine.places, "STRATA_BATCH": "1"})
    asked: dict[int, int] = {}
    for numbers, last in ((range(FEW), FEW), (range(FEW + 1, MANY), MANY)):
        for number in numbers:
            _add(cloud, number)
        one_by_one.strata("load")
        one_by_one.strata("publish")
        _add(cloud, last)
        asked[last] = _asked(server, machine)
    # A log of ten commits is summed up by reading ten.
    assert max(asked.values()) <= MOST
