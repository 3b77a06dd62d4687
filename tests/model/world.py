"""A source, a warehouse, an archive and two machines, on which commands are run in this process."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pipelines.commands.failures import exit_code, known_errors
from pipelines.commands.group import strata
from tests.model.clock import Clock
from tests.model.disturbing import Disturbance, KilledError, disturbed, watch_stores
from tests.model.model import TABLES, Segment
from tests.pipelines.kit import SIZE, blocks, make_segment, one_key_twice, site_settings
from tests.segments_kit import KIT_CHAIN, entry_bytes, table_rows
from transforms.tables.registry import HISTORY_TABLES, known_tables
from transforms.warehouse.merge import compaction
from transforms.warehouse.merge.merge_plan import MOST_PARTIAL
from transforms.warehouse.warehouse import Warehouse

MACHINES = ("a", "b")
"""The first one keeps what is its own in the warehouse's folder, the second in one of its own."""

KILLED = -9
_NEW_VERSION_FROM = 4
"""The number of the first segment with schema version 2, where `orders` has other columns."""

_STATE = next(table for table in known_tables(1) if table not in HISTORY_TABLES)
"""The table of current state that segments of the pipeline's tests have; here a third of them."""

_MOST_LEFT = 1
"""How many small neighbours a merge leaves: two are enough to be merged."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a command ended: its exit code, the JSON it wrote, what it said on stderr."""

    command: tuple[str, ...]
    code: int
    said: Any
    err: str


@dataclass(slots=True)
class World:
    """All places lie below `home`; commands read nothing else."""

    home: Path
    patch: pytest.MonkeyPatch
    has_lake: bool = False
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        site_settings(self.home)
        self.temporary.mkdir()
        self.clock = Clock(self.patch)
        self.patch.setattr(tempfile, "tempdir", str(self.temporary))
        self.patch.setattr(Warehouse.compact, "__defaults__", (_MOST_LEFT,))
        self.merge_above(_MOST_LEFT)
        watch_stores(self.patch)

    @property
    def warehouse(self) -> Path:
        return self.home / "warehouse"

    @property
    def archive(self) -> Path:
        return self.home / "archive"

    @property
    def temporary(self) -> Path:
        return self.home / "tmp"

    def cache(self, machine: str) -> Path:
        """The folder that a machine has for itself."""
        return self.warehouse if machine == MACHINES[0] else self.home / machine

    def merge_above(self, count: int) -> None:
        """Let loads merge where they leave more small neighbours."""
        self.patch.setattr(compaction.merge, "__defaults__", (count,))

    @contextmanager
    def unmerged(self) -> Iterator[None]:
        """Let loads merge nothing in the block."""
        self.merge_above(MOST_PARTIAL)
        try:
            yield
        finally:
            self.merge_above(_MOST_LEFT)

    def run(self, machine: str, *command: str, batch: int = 2) -> Answer:
        """Run a command of `strata` to its end, wherever that is."""
        runner = CliRunner()
        environment = self._environment(machine, batch)
        try:
            done = runner.invoke(
                strata, [*command, "--json"], env=environment, standalone_mode=False
            )
        except KilledError:
            return Answer(command, KILLED, None, "")
        error = done.exception
        if error is None:
            return Answer(command, done.return_value or 0, json.loads(done.stdout), done.stderr)
        if isinstance(error, known_errors()):
            return Answer(command, exit_code(error), None, str(error))
        pytest.fail(f"strata {' '.join(command)} broke off: {error!r}")

    def _environment(self, machine: str, batch: int) -> dict[str, str]:
        cache = {} if machine == MACHINES[0] else {"STRATA_CACHE": str(self.cache(machine))}
        return {
            "STRATA_SOURCE": str(self.home / "source"),
            "STRATA_WAREHOUSE": str(self.warehouse),
            "STRATA_ARCHIVE": str(self.archive),
            "STRATA_LAKE": str(int(self.has_lake)),
            "STRATA_BATCH": str(batch),
            **cache,
        }

    def run_killed(self, machine: str, *command: str, kind: str, step: int) -> Answer:
        """Run a command that dies before its place number `step` of a kind."""
        with disturbed(Disturbance(self.home, kind, step)):
            return self.run(machine, *command)

    def run_interrupted(
        self, machine: str, *command: str, kind: str, step: int, action: Callable[[], object]
    ) -> Answer:
        """Run a command, and do something else before its place number `step` of a kind."""
        with disturbed(Disturbance(self.home, kind, step, action)):
            return self.run(machine, *command)

    @contextmanager
    def without(self, numbers: Collection[int]) -> Iterator[None]:
        """Let the source lack segments in the block."""
        paths = [self.source_file(number) for number in numbers]
        for path in paths:
            path.rename(self.home / path.name)
        try:
            yield
        finally:
            for path in paths:
                (self.home / path.name).rename(path)

    def make_segment(self, number: int, edition: int, fault: str = "") -> Segment:
        """Write a segment into the source; `fault` is one of `FAULTS`, empty for a sound one."""
        first, version = number * SIZE + 1, 1 + (number >= _NEW_VERSION_FROM)
        rows = [{"price": f"{edition}{number}", "size": str(at)} for at in range(1 + edition)]
        kit: dict[str, Any] = {
            "version": version,
            "tables": {"orders": table_rows("orders", *rows, version=version, first=first)},
        }
        kit |= {"tables": one_key_twice(number)} if fault == _TWICE else _FAULTS.get(fault, {})
        settings = site_settings(self.home)
        path = make_segment(settings, number, omit=() if number % 3 == 0 else (_STATE,), **kit)
        csvs = {} if fault else {table: entry_bytes(path, table) for table in TABLES}
        return Segment(number, edition, csvs, path.stat().st_size, is_sound=not fault)

    def source_file(self, number: int) -> Path:
        """The file of a segment in the source."""
        (span,) = blocks(number)
        version = 1 + (number >= _NEW_VERSION_FROM)
        return self.home / "source" / f"{KIT_CHAIN}-{version}-{span.first}-{span.last}.zip"

    def remove_warehouse(self) -> None:
        """Lose the warehouse, and all that machines have of it."""
        for machine in MACHINES:
            shutil.rmtree(self.cache(machine), ignore_errors=True)


_FAULTS: dict[str, dict[str, Any]] = {
    "cut": {"corrupt": lambda data: data[: len(data) // 2]},
    "text": {"tables": {"orders": b"no,header\n"}},
    "metadata": {"metadata": {"HeightTo": 1}},
}
_TWICE = "twice"
FAULTS = (*_FAULTS, _TWICE)
"""What is wrong with a segment that cannot be loaded."""
