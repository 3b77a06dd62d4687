"""The machine: steps that change the world and the model alike, and what is compared after each."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pipelines.commands.failures import CONFLICT
from tests.faults.wholeness import archive_problems
from tests.model.disturbing import DELETION, DOCUMENT, NAME, SNAPSHOT, ZIP
from tests.model.harm import (
    Backup,
    alter_text,
    back_up,
    flip,
    harmed_files,
    restore,
)
from tests.model.invariants import (
    cheap_problems,
    count_problems,
    export_problems,
    scratch_problems,
    text_problems,
    texts,
    verify_problems,
)
from tests.model.log_files import Shelf, numbers_of, wrong_files
from tests.model.model import TABLES, Model
from tests.model.world import FAULTS, KILLED, MACHINES, Answer, World
from tests.rollback_kit import lose_snapshots
from tests.segments_kit import KIT_CHAIN

_T = TypeVar("_T")
_WHY = "the model test wants it so"

COMMANDS = {
    "load": ("load",),
    "publish": ("publish",),
    "replace": ("publish", "--replace", _WHY),
    "compact": ("compact",),
}

_FIRST = (1, 3)
_MOST_STEPS = {NAME: 60, SNAPSHOT: 2, ZIP: 14, DOCUMENT: 24, DELETION: 9}
"""The last place of each kind, counted from 0, at which a command is disturbed."""

DECK: tuple[tuple[str, ...], ...] = (
    ("supply",),
    ("race", "compact", SNAPSHOT, "load"),
    ("kill", "publish", ZIP),
    ("spoil",),
    ("advance",),
    ("race", "load", SNAPSHOT, "load"),
    ("publish",),
    ("export",),
    ("restore",),
    ("load",),
    ("race", "compact", SNAPSHOT, "compact"),
    ("harm_part",),
    ("supply",),
    ("count",),
    ("race", "publish", DOCUMENT, "publish"),
    ("advance",),
    ("kill", "load", SNAPSHOT),
    ("load",),
    ("supply",),
    ("race", "load", SNAPSHOT, "compact"),
    ("export",),
    ("harm", "lost"),
    ("compact",),
    ("race", "load", DELETION, "load"),
    ("count",),
    ("replace",),
    ("supply",),
    ("load",),
    ("race", "publish", ZIP, "load"),
    ("publish",),
    ("lose_log",),
    ("advance",),
    ("kill", "compact", NAME),
    ("export",),
    ("lose_published",),
    ("supply",),
    ("export",),
    ("count",),
    ("kill", "load", DELETION),
    ("load",),
    ("harm", "flipped"),
    ("supply",),
    ("count",),
    ("advance",),
    ("compact",),
    ("supply",),
    ("supply",),
    ("kill", "publish", DOCUMENT),
    ("publish",),
    ("load",),
)
"""The steps with what each does. A world takes all of them, in any order."""

_ORDERS = st.permutations(DECK).filter(lambda order: order != [*DECK])


class ModelMachine(RuleBasedStateMachine):
    """A world and its model, from nothing on; with a lake publishing takes several times longer."""

    may_have_lake: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.folder = Path(tempfile.mkdtemp(prefix="strata-model-"))
        self.model = Model()
        self.shelf = Shelf()
        self.edition = 1
        self.taken: list[tuple[str, ...]] = []

    # Without the order of the deck itself, with which Hypothesis begins, and draws the least else.
    @initialize(deck=_ORDERS, lake=st.sampled_from((False, False, True)))
    def begin(self, deck: list[tuple[str, ...]], lake: bool) -> None:
        """A new place, with a few segments loaded, and a gap between them."""
        self.deck = deck
        self.world = World(self.folder, self.patch, has_lake=lake and self.may_have_lake)
        self._begin()

    def _begin(self) -> None:
        for number in _FIRST:
            self._put(number)
        self._load(MACHINES[0])
        self.backup: Backup = back_up(self.world, self.model)

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """Take the next step of the deck."""
        self._data = data
        name, *what = taken = self.deck[len(self.taken) % len(self.deck)]
        self.taken.append(taken)
        getattr(self, name)(*what)

    def _draw(self, most: int, label: str) -> int:
        return self._data.draw(st.integers(0, most), label)

    def _machine(self) -> str:
        return self._data.draw(st.sampled_from(MACHINES), "machine")

    def _one_of(self, choices: Iterable[_T], label: str) -> _T:
        return self._data.draw(st.sampled_from([*choices]), label)

    # What the source has.

    def _put(self, number: int, fault: str = "") -> None:
        segment = self.world.make_segment(number, self.edition, fault)
        self.model.source[number] = segment

    def _remove(self, number: int) -> None:
        self.model.source.pop(number)
        self.world.source_file(number).unlink()

    def _fresh(self) -> int:
        """The first number behind all that there ever were."""
        model = self.model
        return max([*model.source, *model.tried, *model.published], default=0) + 1

    def supply(self) -> None:
        """A segment comes, or another one in its place, or it goes.

        Nothing takes the place of what a load has read that did not come to its end.
        """
        numbers = sorted(self.model.source)
        change = self._draw(2, "change") if numbers else 0
        if not change:
            self._put(self._fresh())
            return
        number = self._one_of(numbers, "number")
        if change == 1:
            self._remove(number)
        elif number not in self.model.tried or number in self.model.loaded:
            self.model.source[number] = self.world.make_segment(number, 3 - self.edition)

    def spoil(self) -> None:
        """A bad segment comes, and is refused until it is put right, or goes."""
        number, machine = self._fresh(), self._machine()
        self._put(number, self._one_of(FAULTS, "fault"))
        self._load(machine)
        if self._draw(1, "put right"):
            self._put(number)
        else:
            self._remove(number)
        self._load(machine)

    # What commands do.

    def load(self) -> None:
        """Load, and sweep."""
        self._load(self._machine())

    def _load(self, machine: str, batch: int = 2) -> None:
        pending, refused = texts(self.model.pending), self.model.refused
        answer = self.world.run(machine, "load", batch=batch)
        self._expect(answer, 1 if refused else 0)
        assert [row["segment"] for row in answer.said["loaded"]] == pending, answer
        self.model.load()
        _assert_none(scratch_problems(self.world, machine))
        _assert_none(self._look())
        _assert_none(self.shelf.overdue(self.model.loaded, self.world.clock.days))

    def publish(self) -> None:
        """Publish what is loaded."""
        self._again("publish", self._machine())

    def compact(self) -> None:
        """Merge, where a load has left something."""
        self._again("compact", self._machine())

    def replace(self) -> None:
        """What is published otherwise than it is loaded is replaced, and that is disturbed."""
        if self._draw(1, "killed"):
            self.kill("replace", DOCUMENT)
        else:
            self.race("replace", DOCUMENT, "publish")

    def advance(self) -> None:
        """Time passes, and again while nothing else happens."""
        machine, days = self._machine(), self._one_of((2.0, 0.5, 8.0), "days")
        for _ in range(2):
            self._pass(days)
            self._load(machine)

    def _pass(self, days: float) -> None:
        _assert_none(self._look())
        self.world.clock.advance(days)

    def _words(self, command: str) -> tuple[str, ...]:
        # Editions differ in orders; the other tables would take as long each. A lake wants all.
        is_partial = command == "replace" and not self.world.has_lake
        return (*COMMANDS[command], *(("--table", "orders") if is_partial else ()))

    def _stock(self, *commands: str, machine: str) -> None:
        """Let there be something to do for each of these commands."""
        if "replace" in commands:
            self._change_editions()
            self._complete(machine)
        if "compact" in commands:
            self._put(self._fresh())
            with self.world.unmerged():
                self._load(machine)
        if "publish" in commands and self.model.loaded.keys() <= self.model.published.keys():
            self._put(self._fresh())
            self._load(machine)
        if "load" in commands:
            self._put(self._fresh())
            self._put(self._fresh())

    def _change_editions(self) -> None:
        """Give up the warehouse and its source, and begin anew with other texts."""
        model = self.model
        if model.differs:
            return
        self._again("publish", MACHINES[0])
        self.edition = 3 - self.edition
        for number in sorted(model.source):
            self._remove(number)
        self.world.remove_warehouse()
        model.loaded, model.tried = {}, {}
        self.shelf.forget()
        self._begin()

    def _complete(self, machine: str) -> None:
        """Load again what is published: a file of a lake holds several segments, or none is new."""
        model = self.model
        if not self.world.has_lake:
            return
        for number in sorted(model.published.keys() - model.loaded.keys() - model.source.keys()):
            edition = model.tried[number].edition if number in model.tried else self.edition
            model.source[number] = self.world.make_segment(number, edition)
        self._load(machine)

    # What disturbs them.

    def _prepare(self, *commands: str, kind: str, machine: str) -> int:
        """Let commands come to places of a kind; returns which of them is disturbed."""
        if kind == DELETION:
            self._stock("compact", machine=machine)
            self._again("compact", machine)
            self._pass(2.0)
        self._stock(*commands, machine=machine)
        return self._draw(_MOST_STEPS[kind], "place")

    def kill(self, command: str, kind: str) -> None:
        """A command dies, what is there is whole, and it is run again, here or elsewhere."""
        machine, other = self._machine(), self._machine()
        step = self._prepare(command, kind=kind, machine=machine)
        before = self.model.copy()
        self._note(command)
        answer = self.world.run_killed(machine, *self._words(command), kind=kind, step=step)
        assert answer.code in (KILLED, *self._codes()), answer
        _assert_none(self._half_done())
        _assert_none(self._look(is_swept=False))
        status = self.world.run(other, "status")
        self._expect(status, 0)
        loaded = set(status.said["segments"]["loaded"])
        least, most = set(texts(before.loaded)), set(texts(self.model.loaded))
        assert least <= loaded <= most, f"status says {loaded} loaded, not {least} to {most}"
        self._again(command, other)

    def race(self, command: str, kind: str, between: str) -> None:
        """Another machine does something while a command of this one is at work."""
        machine = self._machine()
        other = MACHINES[machine == MACHINES[0]]
        step = self._prepare(command, between, kind=kind, machine=machine)
        hidden = self._hidden(between)
        answers: list[Answer] = []
        problems: list[str] = []
        self._note(command)
        self._note(between)

        def act() -> None:
            problems.extend(self._half_done())
            with self.world.without(hidden):
                answers.append(self.world.run(other, *self._words(between), batch=1))

        first = self.world.run_interrupted(
            machine, *self._words(command), kind=kind, step=step, action=act
        )
        _assert_none(problems)
        assert first.code in self._codes(), first
        # While a ZIP is replaced it is not what its entry says.
        codes = (0, 1, CONFLICT) if command == "replace" else self._codes()
        for answer in answers:
            assert answer.code in codes, answer
        status = self.world.run(other, "status")
        self._expect(status, 0)
        if command == "load":
            loaded, expected = status.said["segments"]["loaded"], texts(self.model.loaded)
            assert loaded == expected, f"status says {loaded} loaded, the model {expected}"
        for each in sorted(dict.fromkeys((command, between)), key=lambda each: each != "load"):
            self._again(each, machine)

    def _hidden(self, between: str) -> list[int]:
        """Of what is to be loaded, what a load meanwhile does not see: all but one, or nothing."""
        is_seen = between != "load" or self._draw(1, "all seen")
        return [] if is_seen else sorted(self.model.pending)[1:]

    def _half_done(self) -> list[str]:
        """What is wrong with what anybody finds at any moment."""
        return [*wrong_files(self.world.warehouse), *archive_problems(self.world.archive)]

    def _codes(self) -> tuple[int, ...]:
        """How a command ends that was not killed.

        A lake refuses what it has otherwise, and what is merged with blocks that it has and the
        warehouse lacks.
        """
        model = self.model
        is_otherwise = model.differs or model.published.keys() - model.loaded.keys()
        return (0, 1, CONFLICT) if self.world.has_lake and is_otherwise else (0, 1)

    def _note(self, command: str) -> None:
        """A load has been begun, and may come to its end."""
        if command == "load":
            self.model.load()

    def _again(self, command: str, machine: str) -> None:
        """Run it to its end; how it ends is as if it had not been run before."""
        answer = self.world.run(machine, *self._words(command))
        if command != "publish" or answer.code != CONFLICT or CONFLICT not in self._codes():
            self._expect(answer, 1 if command == "load" and self.model.refused else 0)
        if command == "load":
            self.model.load()
            _assert_none(scratch_problems(self.world, machine))
        if command == "replace":
            self.model.replace()
            answer = self.world.run(machine, "publish")
            self._expect(answer, 0)
        if command in ("publish", "replace"):
            self.model.publish()
            _assert_none(text_problems(self.world, self.model))

    # What damages files.

    def harm(self, way: str) -> None:
        """A file of the warehouse is lost, or a bit of it flips; repair and load make it good."""
        machine = self._machine()
        self._load(machine)  # a state is made again from its segment alone: others have none here
        name = self._one_of(harmed_files(self.world.warehouse), "file")
        if not self.model.can_reload(n for n in numbers_of(name) if n in self.model.loaded):
            return
        path = self.world.warehouse / name
        path.unlink() if way == "lost" else flip(path)
        self.shelf.forget()
        repaired = self.world.run(machine, "repair")
        self._expect(repaired, 5)
        status = self.world.run(machine, "status")
        self._expect(status, 0)
        kept = self.model.loaded.keys() - numbers_of(name)
        assert set(texts(kept)) <= set(status.said["segments"]["loaded"])
        self._again("load", machine)
        self._expect(self.world.run(machine, "repair"), 0)

    def harm_part(self) -> None:
        """What waits to be published has another text, or is damaged: it is rendered again."""
        machine = self._machine()
        folder = self.world.cache(machine) / "parts" / KIT_CHAIN / "orders"
        if not (parts := sorted(folder.glob("*.zip"))):
            self._put(self._fresh())
            self._load(machine)
            parts = sorted(folder.glob("*.zip"))
        path = self._one_of(parts, "part")
        flip(path) if self._draw(1, "flipped") else alter_text(path)
        self._again("publish", machine)

    def lose_log(self) -> None:
        """The newest snapshots of the log are lost, or all; repair takes in what there is."""
        machine = self._machine()
        for _ in range(2):
            self._put(self._fresh())
            self._load(machine)
        lose_snapshots(self.world.warehouse, 1 + self._draw(8, "snapshots"))
        self.shelf.forget()
        for command in ("load", "publish", "status"):
            self._expect(self.world.run(machine, command), 5)
        self._expect(self.world.run(machine, "repair"), 5)
        for each in MACHINES:
            self.world.run(each, "repair")
        for each in MACHINES:
            self._expect(self.world.run(each, "repair"), 0)
        self._recover(machine)

    def _recover(self, machine: str) -> None:
        """Take what the log shows now for loaded; nothing may lack, and all of it was tried."""
        shown = set(self.world.run(machine, "status").said["segments"]["loaded"])
        assert set(texts(self.model.loaded)) <= shown <= set(texts(self.model.tried))
        tried = self.model.tried
        self.model.loaded = {n: tried[n] for n in sorted(tried) if texts([n])[0] in shown}

    def restore(self) -> None:
        """A copy of the warehouse's folder is put back: what lacks in it is loaded again."""
        self._put(self._fresh())
        self._load(self._machine())
        before = dict(self.model.loaded)
        restore(self.world, self.model, self.backup)
        self.shelf.forget()
        for machine in MACHINES:
            assert self.world.run(machine, "repair").code in (0, 5)
        for machine in MACHINES:
            self._expect(self.world.run(machine, "repair"), 0)
        for number, segment in self.model.tried.items():
            if self.model.source.get(number, segment) != segment:
                self._remove(number)
        for number in before.keys() - self.model.loaded:  # what any place has recorded is lost
            edition = before[number].edition
            self.model.source[number] = self.world.make_segment(number, edition, "")
        self._load(MACHINES[0])
        self.backup = back_up(self.world, self.model)

    def lose_published(self) -> None:
        """A ZIP, a file of a hash or a shard is lost: the next publication makes it again."""
        chain = self.world.archive / KIT_CHAIN
        self._again("publish", MACHINES[0])
        model = self.model
        # A shard is made again from what is loaded.
        endings = (".zip", ".zip.sha256", ".json")[
            : 3 - bool(model.published.keys() - model.loaded)
        ]
        ending = self._one_of(endings, "file")
        numbers = [n for n in model.loaded if model.published[n] == model.loaded[n]]
        if ending == ".json":
            next((chain / "index").glob("*.json")).unlink()
        elif numbers:
            table = self._one_of(TABLES, "table")
            (text,) = texts([self._one_of(numbers, "number")])
            (chain / table / f"{KIT_CHAIN}-{table}-{text}{ending}").unlink()
        self._again("publish", MACHINES[0])

    # What is read.

    def export(self) -> None:
        """A run of segments comes out as it went in."""
        run = self._one_of(self.model.runs(), "run")
        first, last = sorted((self._one_of(run, "end"), self._one_of(run, "other end")))
        numbers = run[run.index(first) : run.index(last) + 1]
        table = self._one_of(TABLES, "table")
        _assert_none(export_problems(self.world, self.model, self._machine(), table, numbers))

    def count(self) -> None:
        """SQL counts what is loaded."""
        _assert_none(count_problems(self.world, self.model, self._machine()))

    @invariant()
    def is_as_the_model(self) -> None:
        """Machines read in turns."""
        machine = MACHINES[len(self.taken) % len(MACHINES)]
        _assert_none(cheap_problems(self.world, self.model, machine))
        _assert_none(self._look())

    def _look(self, *, is_swept: bool = True) -> Iterable[str]:
        return self.shelf.look(self.world.warehouse, self.world.clock.days, is_swept=is_swept)

    def finish(self) -> None:
        """Load, publish and sweep what there is, and prove all of it."""
        self._load(MACHINES[0])
        self._complete(MACHINES[0])
        self._again("replace", MACHINES[0])
        self._pass(8.0)
        self._load(MACHINES[0])
        _assert_none(verify_problems(self.world, self.model))
        _assert_none(count_problems(self.world, self.model, MACHINES[0]))

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
