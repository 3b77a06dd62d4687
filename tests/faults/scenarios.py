"""What is disturbed: a command in a state, and what is run afterwards to make it right."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.faults.places import (
    SEGMENTS,
    SMALL_SEGMENTS,
    Place,
    empty_home,
    undisturbed,
    write_captures,
    write_segments,
)
from tests.faults.results import DAMAGED

Command = tuple[str, ...]
LOAD, PUBLISH, RUN = ("load", "--json"), ("publish", "--json"), ("run", "--json")
_EACH_ALONE = {"STRATA_BATCH": "1"}
# A batch of two makes several volumes, snapshots and index updates to die between.
IN_BATCHES = {"STRATA_BATCH": "2"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """`command` is disturbed in the state `make` makes; `after` is run undisturbed afterwards.

    That is the same again, and a load, which removes what is left in the scratch folder.
    """

    name: str
    state: str
    make: Callable[[Place], None]
    command: Command
    after: tuple[Command, ...]
    weight: int
    """How often it is tried, beside the others."""
    codes: frozenset[int] = frozenset((0, 7))
    settings: Mapping[str, str] = field(default_factory=lambda: IN_BATCHES)


def _sourced(place: Place) -> None:
    write_segments(place.home / "source", range(SEGMENTS))


def _loaded(place: Place) -> None:
    _sourced(place)
    undisturbed(place, IN_BATCHES, LOAD)


def _bare(place: Place) -> None:
    """As loaded on another machine: no part waits here."""
    _loaded(place)
    shutil.rmtree(place.warehouse / "parts")


def _grown(place: Place) -> None:
    write_segments(place.home / "source", range(SEGMENTS - 1))
    undisturbed(place, IN_BATCHES, LOAD, PUBLISH)
    write_segments(place.home / "source", [SEGMENTS - 1])


def _published(place: Place) -> None:
    write_segments(place.home / "source", range(SMALL_SEGMENTS - 2))
    undisturbed(place, IN_BATCHES, LOAD, PUBLISH)


def _small(place: Place) -> None:
    write_segments(place.home / "source", range(SMALL_SEGMENTS))
    undisturbed(place, _EACH_ALONE, LOAD, PUBLISH)


def correct(place: Place, count: int = SEGMENTS) -> None:
    """The warehouse has a corrected segment, the archive what was published before."""
    write_segments(place.home / "source", range(count), changed=1)
    undisturbed(place, IN_BATCHES, LOAD, PUBLISH)
    archive = place.home.with_name("wrong-archive")
    place.archive.rename(archive)
    empty_home(place)
    write_segments(place.home / "source", range(count))
    undisturbed(place, IN_BATCHES, LOAD)
    archive.rename(place.archive)


def _with_captures(place: Place) -> None:
    _loaded(place)
    undisturbed(place, IN_BATCHES, PUBLISH)
    write_captures(place.home / "source")


def _with_dagster(place: Place) -> None:
    """Dagster's databases are there, as after any run before."""
    _sourced(place)
    undisturbed(place, IN_BATCHES, RUN)
    shutil.rmtree(place.warehouse)
    shutil.rmtree(place.archive)


REPLACE = ("publish", "--replace", "orders were wrong", "--json")
COMPACT = ("compact", "--json")
VERIFY = ("verify", "--json")
_RUN_CODES = frozenset((0, 1, 7))
_VERIFY_CODES = frozenset((0, DAMAGED, 7))
"""A file that the machine cannot read is a finding, too."""

SCENARIOS = (
    Scenario("load", "sourced", _sourced, LOAD, (LOAD, PUBLISH), 4),
    Scenario("load more", "grown", _grown, LOAD, (LOAD, PUBLISH), 5),
    Scenario("publish", "loaded", _loaded, PUBLISH, (PUBLISH, LOAD), 8),
    Scenario("publish, rendered", "bare", _bare, PUBLISH, (PUBLISH, LOAD), 2),
    Scenario("compact", "small", _small, COMPACT, (COMPACT, LOAD), 4),
    Scenario("replace", "corrected", correct, REPLACE, (REPLACE, LOAD), 3),
    Scenario("captures", "captures", _with_captures, LOAD, (LOAD, PUBLISH), 3),
    Scenario("verify", "published", _published, VERIFY, (VERIFY, LOAD), 3, _VERIFY_CODES),
    Scenario("run", "dagster", _with_dagster, RUN, (RUN, LOAD), 1, _RUN_CODES),
)
