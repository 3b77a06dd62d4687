"""Servers and machines of a cluster fail one by one, and nothing is lost, stuck or done wrongly.

PostgreSQL is killed, and Valkey, which forgets everything; a worker is frozen for longer than a run
may take; two daemons work at once; a worker is cut off from PostgreSQL. All the time the clock of
one machine is eight minutes fast. What comes out is what one machine makes of the same segments.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pipelines.settings import Settings
from tests.cluster.cluster_kit import (
    MOST_SECONDS,
    Cluster,
    Work,
    archive_of_one_machine,
    cluster,
    without_lake,
)
from tests.cluster.machines_kit import Machine
from tests.cluster.relay import Relay, relay
from tests.cluster.servers_kit import Database
from tests.pipelines.kit import make_segment

pytestmark = pytest.mark.cluster

PART = 12
"""Segments that come before each outage."""
OUTAGES = ("database", "broker", "frozen", "daemons", "cut off")
SECONDS_FAST = 8 * 60
START_SECONDS = 60
"""So long a run may wait for a worker."""
_DAEMONS_SECONDS = 60


@dataclass(slots=True)
class Outcome:
    """What was seen on the way, and what there is in the end."""

    failures: dict[str, str] = field(default_factory=dict)
    ends: dict[str, str] = field(default_factory=dict)
    offsets: list[float] = field(default_factory=list)
    status: str = ""
    verified: tuple[int, str] = (-1, "")
    archive: dict[str, bytes] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Scene:
    """The cluster, the segments that are still to come, and the cable of the second machine."""

    cluster: Cluster
    segments: list[Path]
    cable: Relay
    count: int = 0

    def upload(self) -> None:
        """Let the next segments come."""
        self.cluster.upload(*self.segments[self.count : self.count + PART])
        self.count += PART

    def complete(self) -> None:
        """Wait until everything that came is published; what died is started as systemd does."""

        def is_complete() -> bool:
            for machine in self.cluster.machines:
                for name, service in machine.services.items():
                    if not service.is_alive and name != "strata-serve":
                        machine.start(name)
            return self.cluster.is_complete(self.count)

        self.cluster.wait_for(is_complete, 900)


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The history."""
    settings = Settings(source=str(tmp_path_factory.mktemp("segments")))
    return [make_segment(settings, number) for number in range(PART * len(OUTAGES))]


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library by which a process's clock is fast."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.fail("there is no C compiler: apt-get install gcc libc6-dev")
    library = tmp_path_factory.mktemp("clock") / "fast_clock.so"
    source = Path(__file__).with_name("fast_clock.c")
    options = ["-shared", "-fPIC", "-O1", f"-DSECONDS_FAST={SECONDS_FAST}"]
    subprocess.run([compiler, *options, str(source), "-o", str(library)], check=True)
    return library


@pytest.fixture(scope="module")
def scene(
    segments: list[Path], clock: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    """A cluster of which the third machine's clock is fast, and the second one's cable a relay."""
    cables: list[Relay] = []
    with ExitStack() as stack:

        def adjust(machine: Machine, database: Database) -> None:
            starting = "start_timeout_seconds:"
            place = "/var/lib/strata/dagster/dagster.yaml"
            machine.edit(place, {f"{starting} 900": f"{starting} {START_SECONDS}"})
            if machine.folder.name == "machine-2":
                cables.append(stack.enter_context(relay(database.port)))
                changes = {f"127.0.0.1:{database.port}": f"127.0.0.1:{cables[0].port}"}
                machine.edit("/etc/strata/strata.env", changes)
            if machine.folder.name == "machine-3":
                machine.configure(LD_PRELOAD=str(clock))

        folder = tmp_path_factory.mktemp("cluster")
        built = stack.enter_context(cluster(folder, adjust))
        yield Scene(built, segments, cables[0])


@pytest.fixture(scope="module")
def outcome(scene: Scene) -> Outcome:
    """Everything that fails, once."""
    seen = Outcome()
    began = time.monotonic()
    for outage in (_database, _broker, _frozen, _daemons, _cut_off):
        outage(scene, seen)
        print(outage.__name__, round(time.monotonic() - began), flush=True)
    first = scene.cluster.machines[0]
    seen.offsets = _offsets(scene.cluster)
    seen.status = scene.cluster.final_status()
    checked = first.strata("verify")
    seen.verified = (checked.returncode, checked.stdout + checked.stderr)
    seen.archive = scene.cluster.archive()
    seen.unfinished = scene.cluster.unfinished()
    return seen


def _database(scene: Scene, _seen: Outcome) -> None:
    """Kill PostgreSQL while a run works, and start it when somebody has missed it."""
    scene.upload()
    work = scene.cluster.stopped_work(*scene.cluster.machines)
    daemon = scene.cluster.machines[0].services["strata-daemon"]
    before = len(daemon.logged())
    scene.cluster.database.kill()
    work.go_on()
    scene.cluster.wait_for(lambda: "OperationalError" in daemon.logged()[before:])
    scene.cluster.database.start()
    scene.complete()


def _broker(scene: Scene, _seen: Outcome) -> None:
    """Kill Valkey while a run works, and start it when a worker has missed it."""
    scene.upload()
    work = scene.cluster.stopped_work(*scene.cluster.machines)
    before = len(work.worker.logged())
    scene.cluster.broker.kill()
    work.go_on()
    scene.cluster.wait_for(lambda: "Connection refused" in work.worker.logged()[before:])
    scene.cluster.broker.start()
    scene.complete()


def _frozen(scene: Scene, seen: Outcome) -> None:
    """Freeze a worker with its run until that is given up, and let it go on."""
    scene.upload()
    work = scene.cluster.stopped_work(scene.cluster.machines[0])
    for process in work.worker.processes():
        os.kill(process, signal.SIGSTOP)
    seen.failures["frozen"] = scene.cluster.failure_of(work.run)
    for process in work.worker.processes():
        os.kill(process, signal.SIGCONT)
    _end(scene, seen, "frozen", work)


def _daemons(scene: Scene, _seen: Outcome) -> None:
    """Let two daemons work at once for a minute."""
    second = scene.cluster.machines[1]
    second.start("strata-daemon")
    began = time.monotonic()
    scene.upload()
    scene.complete()
    scene.cluster.wait_for(lambda: time.monotonic() > began + _DAEMONS_SECONDS)
    assert second.services["strata-daemon"].is_alive, second.logged()[-3000:]
    second.stop("strata-daemon")
    for name in ("strata-daemon", "strata-code"):
        service = second.services.pop(name)
        service.kill()


def _cut_off(scene: Scene, seen: Outcome) -> None:
    """Cut the second machine off from PostgreSQL while it works, until its run is given up."""
    scene.upload()
    work = scene.cluster.stopped_work(scene.cluster.machines[1])
    scene.cable.cut()
    work.go_on()
    seen.failures["cut off"] = scene.cluster.failure_of(work.run)
    scene.cable.mend()
    _end(scene, seen, "cut off", work)


def _end(scene: Scene, seen: Outcome, outage: str, work: Work) -> None:
    """Wait until the process of a run that was given up has ended, and everything is published."""
    scene.cluster.wait_for(lambda: work.process not in work.worker.processes())
    scene.complete()
    seen.ends[outage] = scene.cluster.end_of(work.run)


def _offsets(built: Cluster) -> list[float]:
    """By how many seconds the first event of each run is later than the database's clock."""
    text = built.database_sql(
        "select extract(epoch from min(e.timestamp) - r.create_timestamp) from runs r "
        "join event_logs e on e.run_id = r.run_id and e.dagster_event_type = 'PIPELINE_START' "
        "group by r.run_id, r.create_timestamp"
    )
    return [float(line) for line in text.split()]


@pytest.mark.parametrize("outage", ["frozen", "cut off"])
def test_a_run_that_nobody_hears_of_is_given_up_and_its_late_end_changes_nothing(
    outcome: Outcome, outage: str
) -> None:
    assert f"Exceeded maximum runtime of {MOST_SECONDS} seconds" in outcome.failures[outage]
    assert outcome.ends[outage] == "FAILURE"


def test_the_clock_of_one_machine_was_fast(outcome: Outcome) -> None:
    fast = [offset for offset in outcome.offsets if offset > SECONDS_FAST - 60]
    assert 0 < len(fast) < len(outcome.offsets)


def test_everything_is_loaded_and_published_in_the_end(
    outcome: Outcome, segments: list[Path]
) -> None:
    assert f'"complete_until": {10 * len(segments)}' in outcome.status
    assert outcome.unfinished == []


def test_warehouse_and_archive_are_verified(outcome: Outcome) -> None:
    assert outcome.verified[0] == 0, outcome.verified[1]


def test_the_archive_is_that_of_one_machine_to_the_byte(
    outcome: Outcome, segments: list[Path], tmp_path: Path
) -> None:
    alone = archive_of_one_machine(segments[0].parent, tmp_path, code=0)
    assert without_lake(outcome.archive) == without_lake(alone)
