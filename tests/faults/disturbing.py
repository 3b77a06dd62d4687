"""Faults and kills: a command is disturbed once, looked at, run again, and compared.

The command must end with a sentence (or be dead), leave nothing half done that anybody can see, and
end, when it is run again, as if nothing had happened.
"""

from __future__ import annotations

import errno
import json
import random
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.faults.children import Ended, in_child, use
from tests.faults.commands import facts, run_strata, write_facts
from tests.faults.library import COUNT_ONLY, FOR_EVER, Action, Control, Fault, Kind, Kinds
from tests.faults.orders import Order
from tests.faults.places import OpenSnapshots, Place, archive_files
from tests.faults.results import DAMAGED, Result, ending_of, of_ending, said
from tests.faults.scenarios import SCENARIOS, Scenario
from tests.faults.wholeness import half_done

GOLDEN = 0.6180339887498949
"""Multiples of it, modulo 1, cover an interval evenly, however many there are."""

_UNREADABLE = "the machine cannot read it"
_PROVEN_EVERY = 5
"""Of so many tries, one ends with rendering all that is loaded; the others with hashing it."""

_SOONER = 0.8
"""How much earlier a kill comes the next time where the command had ended before."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_ERRORS = {
    Kind.OPEN: (errno.EIO, errno.EINTR, errno.EACCES),
    Kind.READ: (errno.EIO, errno.EINTR),
    Kind.UNLINK: (errno.EIO, errno.EROFS),
    Kind.TRUNCATE: (errno.EIO, errno.ENOSPC),
    Kind.SYNC: (errno.EIO, *_NO_ROOM),
    Kind.CLOSE: (errno.EIO, *_NO_ROOM),
    Kind.WRITE: (errno.EIO, *_NO_ROOM),
}
_ANY = (errno.EIO, errno.EROFS, *_NO_ROOM)
_LASTING = ((Kinds.SPACE, errno.ENOSPC), (Kinds.SPACE, errno.EDQUOT), (Kinds.NAMES, errno.EROFS))
_LASTING_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Calm:
    """An undisturbed run: operations of each kind, seconds, what it said, and what it left."""

    seen: dict[Kind, int]
    seconds: float
    said: Any
    archive: dict[str, bytes]
    facts: dict[str, Any]


class Disturbed:
    """The tries of one process, at one place."""

    def __init__(self, folder: Path, order: Order) -> None:
        self.place = Place(folder / "home", folder / "notes")
        self._snapshots = OpenSnapshots(self.place, folder / "states")
        self._control = Control()
        self._calm: dict[str, Calm] = {}
        self._order = order

    @cached_property
    def _scenarios(self) -> Sequence[Scenario]:
        if self._order.scenarios:
            return [one for one in SCENARIOS if one.name in self._order.scenarios]
        return [one for one in SCENARIOS for _ in range(one.weight)]

    def faults(self) -> Iterator[Result]:
        """Let one file operation fail, or all from one on."""
        for number, scenario, dice, at in self._drawn():
            fault = _drawn_fault(dice, self._calm_of(scenario), at)
            ended = self._run(scenario, fault)
            problems = self._problems(scenario, ended)
            yield self._result(number, scenario, str(fault), ended, problems)

    def kills(self) -> Iterator[Result]:
        """Kill at a file operation, in the middle of a write, or at any moment."""
        for number, scenario, dice, at in self._drawn():
            calm = self._calm_of(scenario)
            if dice.random() < 0.5:
                seconds, ended = at * calm.seconds, None
                while ended is None or ended.code != -signal.SIGKILL:
                    ended = self._run(scenario, COUNT_ONLY, seconds)
                    what = f"SIGKILL after {seconds:.3f} s"
                    seconds *= _SOONER
            else:
                action = dice.choice((Action.DIE, Action.DIE, Action.DIE_HALFWAY))
                kinds = 1 << Kind.WRITE if action is Action.DIE_HALFWAY else int(Kinds.CHANGES)
                fault = Fault(kinds, action, 0, _operation(calm, kinds, at))
                what = str(fault)
                ended = self._run(scenario, fault)
            problems = self._problems(scenario, ended) if ended.code != -signal.SIGKILL else []
            yield self._result(number, scenario, what, ended, problems)

    def _drawn(self) -> Iterator[tuple[int, Scenario, random.Random, float]]:
        """The scenario of each try, dice for the rest, and where in the command, from 0 to 1.

        That is spread evenly over all tries of a scenario.
        """
        wanted, counts = set(self._order.numbers), Counter[str]()
        for number in range(max(wanted, default=-1) + 1):
            dice = random.Random(f"{self._order.seed} {self._order.campaign} {number}")
            scenario = dice.choice(self._scenarios)
            counts[scenario.name] += 1
            if number in wanted:
                yield number, scenario, dice, counts[scenario.name] * GOLDEN % 1

    def _result(
        self,
        number: int,
        scenario: Scenario,
        what: str,
        ended: Ended,
        problems: list[str],
    ) -> Result:
        path, is_met = self._control.path, self._control.done or ended.code == -signal.SIGKILL
        problems = [
            *problems,
            *(f"half done: {one}" for one in self._half_done()),
            *self._problems_of_rerun(scenario, proven=number % _PROVEN_EVERY == 0),
        ]
        return Result(
            self._order.campaign,
            number,
            scenario.name,
            f"{what}{f' on {path}' if path else ''}",
            ending_of(ended) if is_met else "ended before",
            problems,
            f"{ended.out[-600:]}\n{ended.err[-3000:]}" if problems else "",
        )

    def _run(self, scenario: Scenario, fault: Fault, kill_after: float | None = None) -> Ended:
        self._snapshots.restore(scenario.state, scenario.make)
        self._control.set(fault, self.place.home)

        def work() -> int:
            use(self.place.environment(scenario.settings))
            self._control.arm()
            return run_strata(list(scenario.command))

        return in_child(work, self.place.notes, kill_after=kill_after)

    def _problems(self, scenario: Scenario, ended: Ended) -> list[str]:
        problems = of_ending(ended, scenario.codes)
        if ended.code == 0 and (now := said(ended.out)) != self._calm_of(scenario).said:
            problems.append(f"it says that all is done, but {now}")
        if ended.code == DAMAGED and DAMAGED in scenario.codes:
            found = json.loads(ended.out)["findings"]
            problems += [f"it blames {one}" for one in found if _UNREADABLE not in one["what"]]
        return problems

    def _finish(self, scenario: Scenario, *, proven: bool = False) -> tuple[Ended, dict[str, Any]]:
        found = self.place.notes / "facts.json"
        found.unlink(missing_ok=True)

        def work() -> int:
            use(self.place.environment(scenario.settings))
            code = max(run_strata(list(command)) for command in scenario.after)
            write_facts(found, facts(str(self.place.warehouse), proven=proven))
            return code

        ended = in_child(work, self.place.notes)
        return ended, json.loads(found.read_text()) if found.exists() else {}

    def _half_done(self) -> list[str]:
        return half_done(self.place.warehouse, self.place.archive)

    def _problems_of_rerun(self, scenario: Scenario, *, proven: bool) -> list[str]:
        calm = self._calm_of(scenario)
        ended, found = self._finish(scenario, proven=proven)
        problems = []
        if ended.code != 0:
            problems.append(
                f"run again: {ending_of(ended)}: {ended.out[-300:]} {ended.err[-1500:]}"
            )
        problems += [f"run again: half done: {one}" for one in self._half_done()]
        archive = archive_files(self.place)
        for name in sorted(archive.keys() | calm.archive.keys()):
            if archive.get(name) != calm.archive.get(name):
                problems.append(f"run again: {name} of the archive is another than undisturbed")
        for name in sorted(found.keys() | calm.facts.keys()):
            if found.get(name) != calm.facts.get(name):
                problems.append(
                    f"run again: {name}: {found.get(name)} instead of {calm.facts.get(name)}"
                )
        return problems

    def _calm_of(self, scenario: Scenario) -> Calm:
        if scenario.name not in self._calm:
            ended = self._run(scenario, COUNT_ONLY)
            assert ended.code == 0, f"{scenario.name}: {ended.out}\n{ended.err}"
            seen = self._control.seen
            finished, found = self._finish(scenario)
            assert finished.code == 0, f"{scenario.name}: {finished.out}\n{finished.err}"
            archive = archive_files(self.place)
            self._calm[scenario.name] = Calm(seen, ended.seconds, said(ended.out), archive, found)
            # What was drawn for a try does not change by when its scenario was first run calmly.
        return self._calm[scenario.name]


def _drawn_fault(dice: random.Random, calm: Calm, at: float) -> Fault:
    if dice.random() < _LASTING_SHARE:
        kinds, error = dice.choice((*_LASTING, (Kinds.ALL, errno.EIO)))
        return Fault(kinds, Action.FAIL, error, _operation(calm, kinds, at), FOR_EVER)
    kind = dice.choice([kind for kind in Kind if calm.seen[kind]])
    error = dice.choice(_ERRORS.get(kind, _ANY))
    number = _operation(calm, 1 << kind, at)
    if kind is Kind.WRITE and dice.random() < 0.5:
        action, times = dice.choice(((Action.HALF, 1), (Action.HALF_THEN_FAIL, FOR_EVER)))
        return Fault(1 << kind, action, error, number, times)
    return Fault(1 << kind, Action.FAIL, error, number)


def _operation(calm: Calm, kinds: int, at: float) -> int:
    count = sum(calm.seen[kind] for kind in Kind if kinds & 1 << kind)
    return 1 + int(at * count)
