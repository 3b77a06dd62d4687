"""What a process does to a lake until it is killed: publish, merge, correct, sweep, at random.

It runs in children of a server that has imported everything, so that a kill costs no start.
"""

from __future__ import annotations

import os
import random
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from exporters.lake.publication.state_tables import publish_state
from pipelines.settings import Settings
from pipelines.site.publication_state import lacking_segments, site_lake
from pipelines.site.site import Site
from tests.exporters.lake.lake_kit import history_tables
from transforms.block_range import BlockRange
from transforms.errors import BusyError

WITH_ROWS = ("blocks", "orders")


@dataclass(frozen=True, slots=True)
class Place:
    """A warehouse with all that is to be published, where the lake lies, where failures are told.

    `environment` says how a bucket is reached: children are forked with any.
    """

    warehouse: Path
    archive: str
    errors: Path
    environment: dict[str, str]

    def site(self) -> Site:
        """Open it."""
        nothing = str(self.warehouse.parent)
        return Site(Settings(source=nothing, warehouse=str(self.warehouse), archive=self.archive))


def work(place: Place, seed: int, *, alone: bool) -> None:
    """Do steps at random until the process is killed; a step that fails ends it.

    Only who is `alone` sweeps what others might be about to name.
    """
    dice = random.Random(seed)
    steps = (_publish, _merge, _correct, publish_current_state, _sweep)
    with prepared(place, seed):
        site = place.site()
        while True:
            (step,) = dice.choices(steps, (8, 2, 1, 1, 3 if alone else 0))
            with suppress(BusyError):  # another one damages what this one reads: again, later
                step(site, dice)


def publish_in_turn(place: Place, seed: int, commits: int) -> None:
    """Publish so many batches, cut at random, each anywhere in what is loaded."""
    dice = random.Random(seed)
    with prepared(place, seed):
        site = place.site()
        for _ in range(commits):
            _publish(site, dice)


@contextmanager
def prepared(place: Place, seed: int) -> Iterator[None]:
    """Reach what the parent reaches; leave word where a step fails."""
    os.environ.update(place.environment)
    with ExitStack() as failing:
        failing.callback(lambda: (place.errors / f"{seed}.txt").write_text(traceback.format_exc()))
        yield
        failing.pop_all()


def publish_some(site: Site, segments: Sequence[BlockRange]) -> None:
    """Put volumes with these segments there; whatever another process damaged may be refused."""
    tables = history_tables(site, segments)
    tables.follow()


def _publish(site: Site, dice: random.Random) -> None:
    loaded = site.loaded_catalog().blocks
    lacking = lacking_segments(site)
    if dice.random() < 0.8 and lacking:
        loaded = tuple(lacking)
    start = dice.randrange(len(loaded))
    publish_some(site, loaded[start : start + dice.randint(1, 5)])


def publish_current_state(site: Site, _dice: random.Random) -> None:
    """Put the newest current state there."""
    lake = site_lake(site)
    lake.look()
    state = site.loaded_catalog().snapshot.states[-1]
    publish_state(lake, site.warehouse.backing, state, site.scratch())


def _merge(site: Site, dice: random.Random) -> None:
    if dice.random() < 0.2:
        site.warehouse.compact(most_partial=dice.randint(1, 3))
    publish_some(site, site.loaded_catalog().blocks)


def _correct(site: Site, dice: random.Random) -> None:
    """Remove a file, and have it put there again."""
    lake = site_lake(site)
    table = lake.table(dice.choice(WITH_ROWS))
    if not table.files:
        return
    lake.archive.store.delete(table.key(dice.choice(table.files).name))
    tables = history_tables(site)
    tables.follow()


def _sweep(site: Site, dice: random.Random) -> None:
    site_lake(site).sweep(kept_hours=0)
