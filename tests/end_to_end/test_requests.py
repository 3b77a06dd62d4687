"""What one new segment with rows in two tables asks of a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.machines_kit import Machine
from tests.end_to_end.test_bucket_warehouse import make_cloud, segment
from tests.s3_kit import BucketServer, bucket_server

MOST = 125  # four of them prove that the index and a shard belong together


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as running:
        yield running


def test_one_new_segment_asks_a_bucket_so_often_at_most(
    server: BucketServer, tmp_path: Path
) -> None:
    """Beside many it asks no more: see `test_lake_growth` and `test_flat_costs`."""
    cloud = make_cloud(server, tmp_path)
    machine = cloud.machine("a")
    one_by_one = Machine(machine.folder, {**machine.places, "STRATA_BATCH": "1"})
    for first in (1, 11):
        cloud.add(segment(cloud.root / "made", first, first + 9, states=True))
    one_by_one.strata("load")
    one_by_one.strata("publish")
    cloud.add(segment(cloud.root / "made", 21, 30, states=True))
    server.door.requests.clear()

    machine.strata("run")

    assert len(server.door.requests) <= MOST
