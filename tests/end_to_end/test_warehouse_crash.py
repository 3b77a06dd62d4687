"""SIGKILL at random moments among load, compaction, sweep and commit, of two machines that share
nothing but the store; and races of loaders. A few kills in the gate, hundreds by `make crash-test`.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.context import ForkServerProcess
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tests.end_to_end.crash_worker import Machine, load_some, work
from tests.segments_kit import table_rows
from tests.transforms.warehouse_kit import (
    MemorySink,
    exact_tables,
    history_segment,
    state_segment,
    verify,
)
from tests.weed_kit import weed_server
from transforms.block_range import BlockRange
from transforms.segments.segment_name import SegmentName
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import object_sha256
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.merge.sweep import FOLDERS

SEGMENTS, FEW_SEGMENTS = 40, 6
"""How many a round has, and one of a few kills."""
BLOCKS = 2
BAD = 3
"""The number of the segment that is damaged until the round ends."""
LOADERS, FEW_LOADERS = 8, 3
ROUND_KILLS = 30
SEED = 20261121
_SPAWN = multiprocessing.get_context("forkserver")
_SPAWN.set_forkserver_preload(["tests.end_to_end.crash_worker", "transforms.stores.s3"])


@dataclass
class Round:
    """One warehouse from its first load to its last check."""

    place: str
    home: Path
    segments: list[Path]
    machines: list[Machine]
    counts: Counter[str] = field(default_factory=Counter)
    held: set[BlockRange] = field(default_factory=set)

    def assert_whole(self) -> Snapshot:
        """What a third machine finds, at any moment, is whole; returns the newest snapshot."""
        machine = replace(self.machines[0], cache=self.home / "reader")
        backing = machine.warehouse().backing
        snapshot = backing.log.newest()
        lacking = [
            file.key
            for file in snapshot.files()
            if (info := backing.store.head(file.key)) is None or info.size != file.size
        ]
        assert lacking == [], f"snapshot {snapshot.number} names what is not there"
        held = set(backing.catalog(snapshot).blocks)
        assert self.held <= held, "segments that were loaded are gone"
        self.held = held
        return snapshot


@pytest.fixture(params=["folder", pytest.param("seaweedfs", marks=pytest.mark.crash)])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Iterator[str]]:
    """Where warehouses may be: new addresses in one kind of store."""
    if request.param == "folder":
        yield (str(tmp_path / f"warehouse-{number}") for number in range(10_000))
        return
    with weed_server(tmp_path / "server") as server:
        bucket = server.bucket()
        yield (f"s3://{bucket}/some/warehouse-{number}" for number in range(10_000))


def _new_round(home: Path, place: str, kills: int) -> Round:
    count = SEGMENTS if kills >= ROUND_KILLS else FEW_SEGMENTS
    source, errors = home / "source", home / "errors"
    errors.mkdir(parents=True)
    reached = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    machines = [Machine(place, home / f"cache-{name}", source, errors, reached) for name in "ab"]
    return Round(place, home, [_segment(source, number) for number in range(count)], machines)


def _segment(source: Path, number: int, *, good: bool = False) -> Path:
    """A segment of two blocks with some orders; every tenth has a current state."""
    first = number * BLOCKS + 1
    make = state_segment if number % 10 == 0 else history_segment
    orders = table_rows("orders", *[{"price": str(number)}] * (number % 4), first=first)
    bad = number == BAD and not good
    return make(
        source,
        first=first,
        last=first + BLOCKS - 1,
        tables={"orders": b"no,header\n" if bad else orders},
    )


def _killed(round_: Round, kills: int, dice: random.Random) -> None:
    """Run a process on each machine; kill one of them again and again, and start the next one."""
    running = [_started(machine, dice) for machine in round_.machines]
    newest = 0
    try:
        for _ in range(kills):
            time.sleep(dice.uniform(0.02, 0.9))
            victim = dice.randrange(len(running))
            running[victim].kill()
            running[victim].join()
            _assert_no_errors(round_)
            running[victim] = _started(round_.machines[victim], dice)
            number = round_.assert_whole().number
            assert number >= newest, "snapshots were lost"
            newest = number
    finally:
        for process in running:
            process.kill()
            process.join()
    _assert_no_errors(round_)


def _started(machine: Machine, dice: random.Random) -> ForkServerProcess:
    process = _SPAWN.Process(target=work, args=(machine, dice.getrandbits(32)), daemon=True)
    process.start()
    return process


def _assert_no_errors(round_: Round) -> None:
    for path in (round_.home / "errors").iterdir():
        pytest.fail(path.read_text())


def _finish(round_: Round) -> Snapshot:
    """Load what is left on one machine, with the damaged segment put right, and tidy up."""
    machine = round_.machines[0]
    round_.segments[BAD] = _segment(machine.source, BAD, good=True)
    source = Source(FolderStore(machine.source))
    for each in round_.machines:
        warehouse = each.warehouse()
        survey = warehouse.survey(source)
        warehouse.record_refusals(survey)
        report = warehouse.load(source, survey.pending, MemorySink())
        assert report.failures == []
    machine.warehouse().compact(2)
    swept = machine.warehouse().sweep(-2, -2)  # a service tells its time to a second
    round_.counts["files swept at the end"] += len(swept)
    return round_.assert_whole()


def _assert_right(round_: Round, snapshot: Snapshot) -> None:
    """Everything is there, once, exact, and nothing else is."""
    warehouse = round_.machines[1].warehouse()
    catalog = warehouse.loaded_catalog()
    held = [segment.name for segment in catalog.segments()]
    assert held == [SegmentName.parse(path.name) for path in round_.segments]
    assert list(verify(warehouse)) == []
    for segment in round_.segments:
        exact = exact_tables(warehouse, segment)
        assert len(exact) >= 15
        assert all(exact.values()), (segment, exact)
    store = warehouse.backing.store
    for file in snapshot.files():
        assert object_sha256(store, file.key) == file.sha256
    there = {info.key for folder in FOLDERS for info in store.list(f"{folder}/")}
    assert there <= snapshot.named_keys()
    assert snapshot.dropped == {}
    assert snapshot.quarantine == ()
    _assert_chained(round_, snapshot)
    for machine in round_.machines:
        _assert_tidy(machine)


def _assert_chained(round_: Round, newest: Snapshot) -> None:
    """The snapshots have no hole."""
    backing = round_.machines[0].warehouse().backing
    numbers = backing.log.numbers()
    assert numbers == list(range(numbers[0], newest.number + 1))
    round_.counts["snapshots"] += newest.number
    round_.counts["snapshots swept"] += numbers[0] - 1


def _assert_tidy(machine: Machine) -> None:
    """A machine's folder holds no unfinished file once something ran there."""
    machine.warehouse().sweep()
    files = {"current.duckdb", "current.json", ".merging.lock", ".views.lock"}
    files |= {
        "proofs.lock",
        "proofs.sqlite",
        "proofs.sqlite-shm",
        "proofs.sqlite-wal",
        "seen_snapshot.json",
        "source.json",
    }
    folders = {"scratch", "copies", "leases"}
    assert {path.name for path in machine.cache.iterdir()} <= files | folders
    assert list((machine.cache / "scratch").iterdir()) == []


def _report(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        print(f"\n{text}")


def test_kills_leave_nothing_behind_and_lose_nothing(
    tmp_path: Path, places: Iterator[str], kills: int, capsys: pytest.CaptureFixture[str]
) -> None:
    dice = random.Random(SEED)
    total: Counter[str] = Counter()
    left = kills
    while left > 0:
        round_ = _new_round(tmp_path / f"round-{left}", next(places), kills)
        now = min(left, ROUND_KILLS)
        _killed(round_, now, dice)
        _assert_right(round_, _finish(round_))
        total += round_.counts + Counter(rounds=1, kills=now)
        left -= now
    _report(capsys, ", ".join(f"{count} {what}" for what, count in sorted(total.items())))


def test_of_loaders_at_once_every_segment_is_there_once(
    tmp_path: Path, places: Iterator[str], kills: int
) -> None:
    dice = random.Random(SEED)
    for number in range(1 + kills // 100):
        round_ = _new_round(tmp_path / f"race-{number}", next(places), kills)
        processes: list[BaseProcess] = [
            _SPAWN.Process(
                target=load_some, args=(round_.machines[at % 2], dice.getrandbits(32)), daemon=True
            )
            for at in range(LOADERS if kills >= ROUND_KILLS else FEW_LOADERS)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        _assert_no_errors(round_)
        _assert_right(round_, _finish(round_))
