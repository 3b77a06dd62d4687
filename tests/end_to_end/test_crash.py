"""SIGKILL at random points of load and publish, at least fifty times, then the same end result.

A test run of its own: `make crash-test`. Each round starts from nothing, is killed again and again
in either command, then left to finish, and compared with a run that nobody disturbed.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipelines.sample_history import copy_sample
from tests.archive_kit import without_old_shards
from tests.transforms.warehouse_kit import verify
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.warehouse_address import open_warehouse

KILLS = 56
# Publishing also starts before all is loaded, and loading goes on after something is published.
ROUND = ("load", "load", "publish", "load", "load", "publish", "publish", "publish")
SEED = 20261120
# A batch of two segments makes several volumes, snapshots and index updates to die between.
SETTINGS = {"STRATA_BATCH": "2"}

pytestmark = pytest.mark.crash


@dataclass(frozen=True)
class Place:
    """One run's warehouse and archive."""

    source: Path
    home: Path

    def command(self, name: str) -> subprocess.Popen[bytes]:
        """Start `strata NAME` in a process group of its own."""
        strata = Path(sys.executable).with_name("strata")
        arguments = [str(strata), name, "--json"]
        places = {
            "STRATA_SOURCE": str(self.source),
            "STRATA_WAREHOUSE": str(self.home / "warehouse"),
            "STRATA_ARCHIVE": str(self.home / "archive"),
        }
        return subprocess.Popen(
            arguments,
            env={**os.environ, **SETTINGS, **places},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def finish(self, name: str) -> float:
        """Run a command to its end; returns its seconds."""
        started = time.monotonic()
        process = self.command(name)
        _, output = process.communicate()
        assert process.returncode == 0, output.decode()
        return time.monotonic() - started

    def archive_files(self) -> dict[str, str]:
        """Every published file and its hash, but for the lake's (`test_lake_crash`)."""
        root = self.home / "archive"
        files = {
            str(path.relative_to(root)): path.read_bytes()
            for path in root.rglob("*")
            if path.is_file()
            and "lake" not in path.parts
            and not any(part.startswith(".") for part in path.parts)
        }
        compared = without_old_shards(files)
        return {path: hashlib.sha256(data).hexdigest() for path, data in compared.items()}

    def receipts(self) -> list[tuple[object, ...]]:
        """What the warehouse says it holds, without times."""
        return [_facts(receipt) for receipt in open_warehouse(self.home / "warehouse").receipts()]


def _facts(receipt: Receipt) -> tuple[object, ...]:
    return (receipt.blocks, receipt.table, receipt.rows, receipt.bytes, receipt.sha256)


def assert_nothing_half_done_is_visible(place: Place) -> None:
    """What a reader can find right after a kill is whole."""
    warehouse = open_warehouse(place.home / "warehouse")
    catalog = warehouse.catalog()
    for volume in catalog.snapshot.volumes:
        assert (warehouse.cache / volume.key).exists(), f"{volume.key} is named, not there"
    assert len(place.receipts()) >= 15 * len(catalog.blocks)
    for shard in place.home.glob("archive/*/index/*.json"):
        for entry in json.loads(shard.read_bytes())["zips"]:
            published = shard.parent.parent / entry["path"]
            assert published.exists(), f"{published} is in the index, not in the archive"
            digest = hashlib.sha256(published.read_bytes()).hexdigest()
            assert digest == entry["sha256"], f"{published} is not what the index says"


def kill_at_random(place: Place, name: str, seconds: float, dice: random.Random) -> bool:
    """Start a command and kill it somewhere; False where it had finished before."""
    process = place.command(name)
    try:
        process.wait(dice.uniform(0.25, 1.0) * seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def test_fifty_kills_leave_nothing_behind_and_lose_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_sample(tmp_path / "source")
    calm = Place(tmp_path / "source", tmp_path / "calm")
    seconds = {name: calm.finish(name) for name in ("load", "publish")}
    assert len(calm.archive_files()) > 0
    dice = random.Random(SEED)
    kills = rounds = 0
    while kills < KILLS:
        rounds += 1
        place = Place(calm.source, tmp_path / f"round-{rounds}")
        for name in ROUND:
            kills += kill_at_random(place, name, seconds[name], dice)
            assert_nothing_half_done_is_visible(place)
        for name in ("load", "publish"):
            place.finish(name)

        assert place.archive_files() == calm.archive_files()
        assert place.receipts() == calm.receipts()
        assert list(verify(open_warehouse(place.home / "warehouse"))) == []
        assert list((place.home / "warehouse" / "scratch").glob("run-*")) == []
    with capsys.disabled():
        print(f"\n{kills} kills in {rounds} rounds; every round ended byte-identical")
