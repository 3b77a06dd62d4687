"""What a process does until it is killed: load, compact, sweep, repair, commit or read, at random.

It runs in children of a server that has imported everything, so that a kill costs no start.
"""

from __future__ import annotations

import os
import random
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.transforms.warehouse_kit import MemorySink
from transforms.segments.quarantine import QuarantinedFile
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.checks.log_repair import repair
from transforms.warehouse.load import loader
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse

GRACE_SECONDS = 15.0
"""Longer than any step here needs a snapshot, and short enough that sweeps delete."""
ORPHAN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Machine:
    """A warehouse as one machine knows it, and where its processes say why they failed.

    `environment` says how a bucket is reached: children are forked with any.
    """

    place: str
    cache: Path
    source: Path
    errors: Path
    environment: dict[str, str]

    def warehouse(self) -> Warehouse:
        """Open it."""
        return open_warehouse(self.place, self.cache)


def work(machine: Machine, seed: int) -> None:
    """Do steps at random until the process is killed; a step that fails ends it."""
    dice = random.Random(seed)
    with _prepared(machine, seed):
        while True:
            step = dice.choices(
                (_load, _compact, _sweep, _repair, _commit, _read), (6, 2, 2, 1, 1, 1)
            )
            step[0](machine, dice)


def load_some(machine: Machine, seed: int) -> None:
    """Load many of the segments that are there, in volumes of one segment, or several."""
    with _prepared(machine, seed):
        _load(machine, random.Random(seed), most=1_000)


@contextmanager
def _prepared(machine: Machine, seed: int) -> Iterator[None]:
    os.environ.update(machine.environment)
    with ExitStack() as failing:
        failing.callback(
            lambda: (machine.errors / f"{seed}.txt").write_text(traceback.format_exc())
        )
        yield
        failing.pop_all()


def _load(machine: Machine, dice: random.Random, most: int = 6) -> None:
    loader.VOLUME_BYTES = dice.choice((1, 10_000, 2**30))
    warehouse = machine.warehouse()
    source = Source(FolderStore(machine.source))
    survey = warehouse.survey(source)
    warehouse.record_refusals(survey)
    start = dice.randrange(max(1, len(survey.pending)))
    wanted = survey.pending[start : start + dice.randint(1, most)]
    warehouse.load(source, wanted, MemorySink())


def _compact(machine: Machine, dice: random.Random) -> None:
    machine.warehouse().compact(dice.choice((2, 3, 5)))


def _sweep(machine: Machine, dice: random.Random) -> None:
    machine.warehouse().sweep(GRACE_SECONDS, ORPHAN_SECONDS)


def _repair(machine: Machine, dice: random.Random) -> None:
    repair(machine.warehouse().backing)


def _commit(machine: Machine, dice: random.Random) -> None:
    """Commit a refusal that no source knows; the next survey forgets it again."""
    log = machine.warehouse().backing.log

    def change(newest: Snapshot) -> Snapshot:
        known = newest.quarantine[0] if newest.quarantine else None
        if known is None:
            return newest
        info = replace(known.info, key=f"{dice.random()}.zip")
        extra = QuarantinedFile(info, known.reason)
        return newest.quarantined([extra], ())

    log.begin()
    log.commit(change)


def _read(machine: Machine, dice: random.Random) -> None:
    """Count what the newest snapshot shows: every block once."""
    warehouse = machine.warehouse()
    if warehouse.catalog().snapshot.volumes:
        with warehouse.connect() as con:
            found = con.execute("select count(*), count(distinct height) from blocks").fetchone()
        assert found, "nothing is shown"
        assert found[0] == found[1], f"{found[0]} rows of {found[1]} blocks"
