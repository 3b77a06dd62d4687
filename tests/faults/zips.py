"""Damaged segments among sound ones: they are refused in words, or load as if undamaged."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.faults.children import Ended, in_child, use
from tests.faults.commands import facts, run_strata, write_facts
from tests.faults.orders import Order
from tests.faults.places import BLOCKS, OpenSnapshots, Place, empty_home
from tests.faults.results import Result, ending_of
from tests.mutated_zips import MUTATIONS
from tests.segments_kit import KIT_CHAIN, build_segment, table_rows
from tests.transforms.warehouse_kit import STATE_TABLES

EACH = 12
"""How many damaged segments one load meets."""
_SOUND = (0, 5, 10, 15)
_COUNT = EACH + len(_SOUND)
_WITH_STATE = (10, 13, 15)
_CORRECTED_EVERY = 8
_SEALED = ("_swap_entries", "_edit_text")
"""Damage inside a ZIP that is sound as such: what it holds may be another, legal table."""
_LOAD = ["load", "--json"]


class Zips:
    """The tries of one process, at one place."""

    def __init__(self, folder: Path, order: Order) -> None:
        self.place = Place(folder / "home", folder / "notes")
        self._snapshots = OpenSnapshots(self.place, folder / "states")
        self._order = order

    def results(self) -> Iterator[Result]:
        """Load damaged segments between sound ones; sometimes correct them and load again."""
        calm = self._calm
        for number in self._order.numbers:
            dice = random.Random(f"{self._order.seed} zips {number}")
            how = self._damage(number, dice)
            ended, found = self._load()
            problems = [*_of_ending(ended, found), *_of_content(found, calm, how)]
            corrected = number % _CORRECTED_EVERY == 0
            if corrected and not problems:
                problems = self._problems_of_correction(how, found)
            yield Result(
                self._order.campaign,
                number,
                "corrected afterwards" if corrected else "loaded",
                ", ".join(f"{name} {done}" for name, done in how.items()),
                ending_of(ended),
                problems,
                f"{ended.out[-600:]}\n{ended.err[-3000:]}" if problems else "",
                EACH,
            )

    @cached_property
    def _calm(self) -> Mapping[str, Any]:
        self._snapshots.restore("zips", _sound)
        ended, found = self._load()
        assert ended.code == 0, f"{ended.out}\n{ended.err}"
        return _by_segment(found)

    def _damage(self, number: int, dice: random.Random) -> dict[str, str]:
        """Damage all segments but a few; returns what was done to each."""
        self._snapshots.restore("zips", _sound)
        how: dict[str, str] = {}
        for at in range(_COUNT):
            if at in _SOUND:
                continue
            mutation = MUTATIONS[(number * EACH + len(how)) % len(MUTATIONS)]
            path = self.place.home / "source" / _name(at)
            path.write_bytes(mutation(path.read_bytes(), dice))
            how[path.name] = mutation.__name__
        return how

    def _load(self) -> tuple[Ended, dict[str, Any]]:
        found = self.place.notes / "facts.json"
        found.unlink(missing_ok=True)

        def work() -> int:
            use(self.place.environment({}))
            code = run_strata(_LOAD)
            write_facts(found, facts(str(self.place.warehouse)))
            return code

        ended = in_child(work, self.place.notes)
        return ended, json.loads(found.read_text()) if found.exists() else {}

    def _problems_of_correction(
        self, how: Mapping[str, str], before: Mapping[str, Any]
    ) -> list[str]:
        """Put sound files in the place of refused ones: they load, and nothing is refused."""
        sound = self.place.notes.with_name("states") / "zips" / "source"
        for name in before["quarantine"]:
            (self.place.home / "source" / name).write_bytes((sound / name).read_bytes())
        ended, found = self._load()
        problems = [f"corrected: {one}" for one in _of_ending(ended, found)]
        if found.get("quarantine"):
            problems.append(f"corrected: still refused: {found['quarantine']}")
        return [*problems, *_of_content(found, self._calm, how)]


def _of_ending(ended: Ended, found: Mapping[str, Any]) -> list[str]:
    problems = []
    if ended.hung or "Traceback" in ended.err + ended.out:
        problems.append("it hangs" if ended.hung else "it printed a traceback")
    elif ended.code != (1 if found.get("quarantine") else 0):
        problems.append(f"it ended with {ending_of(ended)}, refused is {found.get('quarantine')}")
    if found.get("damage"):
        problems.append(f"what was loaded does not render: {found['damage']}")
    return problems


def _of_content(
    found: Mapping[str, Any], calm: Mapping[str, Any], how: Mapping[str, str]
) -> Iterator[str]:
    """What is loaded is as undisturbed, or was other tables in a sound ZIP; the rest is refused."""
    loaded, refused = _by_segment(found), found.get("quarantine", [])
    for at in range(_COUNT):
        name, blocks = _name(at), f"{at * BLOCKS + 1}-{(at + 1) * BLOCKS}"
        if blocks not in loaded and name not in refused:
            yield f"{name} ({how.get(name, 'sound')}) is neither loaded nor refused"
        if blocks in loaded and name in refused:
            yield f"{name} is loaded and refused"
        if name in refused and name not in how:
            yield f"{name} is sound, and refused"
        if blocks in loaded and loaded[blocks] != calm[blocks] and how.get(name) not in _SEALED:
            yield f"{name} ({how.get(name, 'sound')}) was loaded, with other content"


def _by_segment(found: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Receipts of history by segment; current state is that of the newest one that is sound."""
    loaded: dict[str, list[Any]] = {}
    for blocks, table, *rest in found.get("receipts", ()):
        if table not in STATE_TABLES:
            loaded.setdefault(blocks, []).append([table, *rest])
    return loaded


def _name(at: int) -> str:
    return f"{KIT_CHAIN}-1-{at * BLOCKS + 1}-{(at + 1) * BLOCKS}.zip"


def _sound(place: Place) -> None:
    empty_home(place)
    for at in range(_COUNT):
        first = at * BLOCKS + 1
        rows = [{"price": str(at), "size": str(number)} for number in range(5)]
        kept = {"parties"} if at in _WITH_STATE else set[str]()
        build_segment(
            place.home / "source",
            first=first,
            last=first + BLOCKS - 1,
            tables={"orders": table_rows("orders", *rows, first=first)},
            omit=set(STATE_TABLES) - kept,
        )
