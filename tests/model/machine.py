"""The machine: rules that change the world and the model alike, and what is compared after each."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.faults.wholeness import archive_problems
from tests.model.harm import Backup, back_up, flip, harmed_files, lose_documents, restore
from tests.model.invariants import (
    cheap_problems,
    count_problems,
    export_problems,
    journal_problems,
    scratch_problems,
    text_problems,
    texts,
    verify_problems,
)
from tests.model.log_files import Shelf, numbers_of, snapshots, wrong_files
from tests.model.model import TABLES, Model, Segment
from tests.model.world import FAULTS, KILLED, MACHINES, NEW_VERSION_FROM, TWICE, Answer, World
from tests.segments_kit import KIT_CHAIN

MOST = 12
NUMBERS = st.integers(0, MOST - 1)
EDITIONS = st.integers(1, 2)
_MACHINES = st.sampled_from(MACHINES)
_LAKES = st.sampled_from((False, False, True))
_STEPS = st.integers(0, 60)
_PLACES = st.integers(0, 9)
_SOUND_CODES = (0, 1)
_T = TypeVar("_T")
_WHY = "the model test wants it so"

COMMANDS = {
    "load": ("load",),
    "publish": ("publish",),
    "replace": ("publish", "--replace", _WHY),
    "compact": ("compact",),
}

_FIRST = (1, 3, 4)
_RACES = (
    *[("load", "load")] * 3,
    *[("load", "compact"), ("compact", "load"), ("compact", "compact")],
    *[("publish", "publish"), ("publish", "replace"), ("replace", "load"), ("load", "publish")],
)
"""The command that is interrupted, and the one that is run meanwhile."""


class ModelMachine(RuleBasedStateMachine):
    """A world and its model, from nothing on; with a lake publishing takes several times longer."""

    may_have_lake: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.folder = Path(tempfile.mkdtemp(prefix="strata-model-"))
        self.model = Model()
        self.shelf = Shelf()
        self.backup: Backup | None = None
        self.reader = 0
        self.counted_at: list[Path] = []

    @initialize(numbers=st.sets(NUMBERS, max_size=2), batch=st.integers(1, 3), lake=_LAKES)
    def begin(self, numbers: set[int], batch: int, lake: bool) -> None:
        """A new place, with a few segments loaded, and a gap between them."""
        self.world = World(self.folder, self.patch, has_lake=lake and self.may_have_lake)
        for number in sorted({*numbers, *_FIRST}):
            self._put(self.world.make_segment(number, 1))
        self._load(MACHINES[0], batch)

    # What the source has.

    @rule(
        number=NUMBERS, edition=EDITIONS, change=st.sampled_from(("add", "add", *FAULTS, "remove"))
    )
    def supply(self, number: int, edition: int, change: str) -> None:
        """A segment comes, a bad one, another one in its place, or it goes.

        Nothing takes the place of what a load has read that did not come to its end.
        """
        if change == "remove":
            self._remove(number)
        elif number not in self.model.tried or number in self.model.loaded:
            is_odd = change == TWICE and number >= NEW_VERSION_FROM
            fault = "" if change == "add" or is_odd else change
            self._put(self.world.make_segment(number, edition, fault))

    def _put(self, segment: Segment) -> None:
        self.model.source[segment.number] = segment

    def _remove(self, number: int) -> None:
        if self.model.source.pop(number, None):
            self.world.source_file(number).unlink()

    # What commands do.

    @rule(machine=_MACHINES, batch=st.integers(1, 3))
    def load(self, machine: str, batch: int) -> None:
        self._load(machine, batch)

    def _load(self, machine: str, batch: int) -> None:
        pending, refused = texts(self.model.pending), self.model.refused
        answer = self.world.run(machine, "load", batch=batch)
        self._expect(answer, 1 if refused else 0)
        assert [row["segment"] for row in answer.said["loaded"]] == pending, answer
        self.model.load()
        self._settle(machine)

    def _settle(self, machine: str) -> None:
        """What a load that came to its end has swept."""
        _assert_none(scratch_problems(self.world, machine))
        if self.model.loaded:
            _assert_none(self._look())
            days = self.world.clock.days
            _assert_none(self.shelf.overdue(self.model.loaded, days))

    @precondition(lambda self: self.model.loaded)
    @rule(machine=_MACHINES, batch=st.integers(1, 3))
    def publish(self, machine: str, batch: int) -> None:
        self._publish(machine, batch)

    def _publish(self, machine: str, batch: int = 2) -> None:
        unfit = self.model.unfit
        self._expect(self.world.run(machine, "publish", batch=batch), 1 if unfit else 0)
        _assert_none(journal_problems(self.world, machine))
        self.model.publish()

    @precondition(lambda self: self.model.loaded)
    @rule(machine=_MACHINES)
    def replace(self, machine: str) -> None:
        """What is published otherwise than it is loaded is replaced."""
        answer = self.world.run(machine, *COMMANDS["replace"])
        self._expect(answer, 1 if self.model.unfit else 0)
        self.model.replace()

    @precondition(lambda self: self.model.loaded)
    @rule(machine=_MACHINES)
    def compact(self, machine: str) -> None:
        self._expect(self.world.run(machine, "compact"), 0)

    @rule(days=st.sampled_from((0.5, 2.0, 8.0)))
    def advance(self, days: float) -> None:
        """Time passes."""
        self.world.clock.advance(days)

    # What disturbs them.

    @precondition(lambda self: self.model.loaded)
    @rule(
        command=st.sampled_from(sorted(COMMANDS)), machine=_MACHINES, other=_MACHINES, step=_STEPS
    )
    def kill(self, command: str, machine: str, other: str, step: int) -> None:
        """A command dies, what is there is whole, and it is run again, here or elsewhere."""
        self._stock(command)
        before = self.model.copy()
        self._note(command)
        answer = self.world.run_killed(machine, *COMMANDS[command], step=step)
        assert answer.code in (KILLED, *_SOUND_CODES), answer
        _assert_none([*wrong_files(self.world.warehouse), *archive_problems(self.world.archive)])
        status = self.world.run(other, "status")
        self._expect(status, 0)
        loaded = set(status.said["segments"]["loaded"])
        assert set(texts(before.loaded)) <= loaded <= set(texts(self.model.loaded))
        self._again(command, other)

    @precondition(lambda self: self.model.loaded)
    @rule(commands=st.sampled_from(_RACES), machine=_MACHINES, step=st.integers(0, 3))
    def interrupt(self, commands: tuple[str, str], machine: str, step: int) -> None:
        """Another machine does something while a command of this one is at work."""
        command, between = commands
        other = MACHINES[machine == MACHINES[0]]
        answers: list[Answer] = []
        self._stock(*{command, between} - {"load"})
        if "load" in (command, between):
            self._stock("load")
        self._note(command)
        self._note(between)

        def act() -> None:
            answers.append(self.world.run(other, *COMMANDS[between], batch=1))

        first = self.world.run_interrupted(machine, *COMMANDS[command], step=step, action=act)
        for answer in (first, *answers):
            assert answer.code in _SOUND_CODES, answer
        status = self.world.run(other, "status")
        self._expect(status, 0)
        if command == "load" or (answers and between == "load"):
            assert status.said["segments"]["loaded"] == texts(self.model.loaded)
        for each in ("load", command, between):
            self._again(each, machine)

    def _stock(self, *commands: str) -> None:
        """Let there be something to do: segments that were never there, loaded one by one."""
        for command in commands[-1:]:
            fresh = set(range(MOST)) - self.model.tried.keys() - self.model.source.keys()
            for number in sorted(fresh)[:2]:
                self._put(self.world.make_segment(number, 1))
            if command != "load":
                self._load(MACHINES[0], 1)

    def _note(self, command: str) -> None:
        """A load has been begun, and may come to its end."""
        if command == "load":
            self.model.load()

    def _again(self, command: str, machine: str) -> None:
        """Run it to its end; how it ends is as if it had not been run before."""
        answer = self.world.run(machine, *COMMANDS[command])
        wants = {"load": self.model.refused, "compact": []}.get(command, self.model.unfit)
        self._expect(answer, 1 if wants else 0)
        if command == "load":
            self.model.load()
            _assert_none(scratch_problems(self.world, machine))
        if command in ("publish", "replace"):
            _assert_none(journal_problems(self.world, machine))
        if command == "publish":
            self.model.publish()
        if command == "replace":
            self.model.replace()

    # What damages files.

    @precondition(lambda self: self.model.loaded)
    @rule(place=st.integers(0, 99), is_lost=st.booleans(), machine=_MACHINES)
    def harm(self, place: int, is_lost: bool, machine: str) -> None:
        """A file of the warehouse is lost, or a bit of it flips; repair and load make it good."""
        name = _at(harmed_files(self.world.warehouse), place)
        if not self.model.can_reload(self._reachable(name)):
            return
        path = self.world.warehouse / name
        path.unlink() if is_lost else flip(path)
        self.shelf.forget()
        repaired = self.world.run(machine, "repair")
        self._expect(repaired, 5)
        status = self.world.run(machine, "status")
        self._expect(status, 0)
        kept = self.model.loaded.keys() - numbers_of(name)
        assert set(texts(kept)) <= set(status.said["segments"]["loaded"])
        self._again("load", machine)
        self._expect(self.world.run(machine, "repair"), 0)

    def _reachable(self, name: str) -> Iterable[int]:
        return [number for number in numbers_of(name) if number in self.model.loaded]

    @rule(place=st.integers(0, 99), machine=_MACHINES)
    def harm_part(self, place: int, machine: str) -> None:
        """A bit flips in what waits to be published: it is rendered again."""
        parts = sorted((self.world.cache(machine) / "parts").rglob("*.zip"))
        if parts:
            flip(_at(parts, place))
            self._publish(machine)
            _assert_none(text_problems(self.world, self.model))

    @precondition(lambda self: self.model.loaded)
    @rule(count=st.integers(1, 9), machine=_MACHINES)
    def lose_log(self, count: int, machine: str) -> None:
        """The newest snapshots of the log are lost, or all; repair takes in what there is."""
        lose_documents(self.world.warehouse, count)
        self.shelf.forget()
        code = self.world.run(machine, "repair", "--take-volumes").code
        assert code in (0, 5)
        for each in MACHINES:
            self.world.run(each, "repair", "--take-volumes")
        for each in MACHINES:
            self._expect(self.world.run(each, "repair"), 0)
        self._recover(machine)

    def _recover(self, machine: str) -> None:
        """Take what the log shows now for loaded; nothing may lack, and all of it was tried."""
        shown = set(self.world.run(machine, "status").said["segments"]["loaded"])
        assert set(texts(self.model.loaded)) <= shown <= set(texts(self.model.tried))
        tried = self.model.tried
        self.model.loaded = {n: tried[n] for n in sorted(tried) if texts([n])[0] in shown}

    @precondition(lambda self: self.model.loaded)
    @rule()
    def back_up(self) -> None:
        """Somebody copies the warehouse's folder."""
        self.backup = back_up(self.world, self.model)

    @precondition(lambda self: self.backup)
    @rule()
    def restore(self) -> None:
        """The copy is put back: each machine is told that its log is right."""
        assert self.backup is not None
        _, other = MACHINES
        self.world.run(other, "status")
        newest = snapshots(self.world.warehouse)[-1].name
        restore(self.world, self.model, self.backup)
        self.shelf.forget()
        if snapshots(self.world.warehouse)[-1].name < newest:
            self._expect(self.world.run(other, "status"), 5)
        for machine in MACHINES:
            assert self.world.run(machine, "repair", "--trust-log").code in (0, 5)
        for machine in MACHINES:
            self._expect(self.world.run(machine, "repair"), 0)
        for number, segment in self.model.tried.items():
            if number in self.model.source and self.model.source[number] != segment:
                self._remove(number)

    @rule()
    def begin_again(self) -> None:
        """The warehouse is given up, and made anew."""
        self.world.remove_warehouse()
        self.model.loaded, self.model.tried = {}, {}
        self.shelf.forget()
        self._load(MACHINES[0], 3)

    @precondition(lambda self: self.model.loaded.keys() & self.model.published.keys())
    @rule(
        place=_PLACES,
        table=st.sampled_from(TABLES),
        ending=st.sampled_from((".zip", ".zip.sha256", ".json")),
    )
    def lose_published(self, place: int, table: str, ending: str) -> None:
        """A ZIP, a file of a hash or a shard is lost: the next publication makes it again."""
        chain = self.world.archive / KIT_CHAIN
        numbers = [
            n for n in self.model.published if self.model.published[n] == self.model.loaded.get(n)
        ]
        if ending == ".json":
            next((chain / "index").glob("*.json")).unlink()
        elif numbers:
            (text,) = texts([_at(numbers, place)])
            (chain / table / f"{KIT_CHAIN}-{table}-{text}{ending}").unlink()
        self._publish(MACHINES[0])

    # What is read.

    @precondition(lambda self: self.model.loaded)
    @rule(
        machine=_MACHINES, table=st.sampled_from(TABLES), ends=st.tuples(_PLACES, _PLACES, _PLACES)
    )
    def export(self, machine: str, table: str, ends: tuple[int, int, int]) -> None:
        """A run of segments comes out as it went in."""
        run = _at(self.model.runs(), ends[0])
        first, last = sorted((ends[1] % len(run), ends[2] % len(run)))
        numbers = run[first : last + 1]
        _assert_none(export_problems(self.world, self.model, machine, table, numbers))

    @precondition(lambda self: self.model.published)
    @rule()
    def read(self) -> None:
        """Every published text is that of its segment."""
        _assert_none(text_problems(self.world, self.model))

    @invariant()
    def is_as_the_model(self) -> None:
        """Machines read in turns."""
        self.reader += 1
        machine = MACHINES[self.reader % len(MACHINES)]
        _assert_none(cheap_problems(self.world, self.model, machine))
        newest = snapshots(self.world.warehouse)[-1:]
        if newest != self.counted_at:  # else SQL would say what it said before
            self.counted_at = newest
            _assert_none(count_problems(self.world, self.model, machine))
        _assert_none(self._look())

    def _look(self) -> Iterable[str]:
        return self.shelf.look(self.world.warehouse, self.world.clock.days)

    def finish(self) -> None:
        """Load, publish and sweep what there is, and prove all of it."""
        self.load(MACHINES[0], 3)
        if self.model.loaded:
            self.replace(MACHINES[0])
            self.publish(MACHINES[0], 3)
            self.advance(8.0)
            self.load(MACHINES[0], 3)
            _assert_none(verify_problems(self.world, self.model))
            _assert_none(text_problems(self.world, self.model))

    def teardown(self) -> None:
        """Prove all once more, and clean up."""
        try:
            has_failed = sys.exc_info()[0] is not None
            if hasattr(self, "world") and not has_failed:
                self.finish()
        finally:
            self.patch.undo()
            shutil.rmtree(self.folder)

    def _expect(self, answer: Answer, code: int) -> None:
        assert answer.code == code, f"exit code {answer.code}, not {code}: {answer}"


def _assert_none(problems: Iterable[str]) -> None:
    problems = list(problems)
    assert not problems, "\n".join(problems)


def _at(choices: list[_T], place: int) -> _T:
    return choices[place % len(choices)]
