"""Repairing a warehouse: what its log and its files say, held against each other, made one again.

Everything is done by creating a snapshot, after the index files that it names. No file is
removed but what other programs wrote on this machine.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from transforms.errors import BusyError
from transforms.moments import Moment
from transforms.objects import ObjectInfo
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.log.log import snapshot_key
from transforms.warehouse.log.snapshot import Snapshot, following, new_warehouse
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.repair.examination import Examination, RepairFinding
from transforms.warehouse.repair.foreign_writes import remove_foreign_writes
from transforms.warehouse.repair.log_state import LogState, read_state
from transforms.warehouse.repair.older_log import lacking, later_volumes, older_log
from transforms.warehouse.repair.volume_choice import chosen_volumes
from transforms.warehouse.repair.volume_description import (
    Advance,
    FoundVolume,
    listed,
    listed_volumes,
    newest_captures,
    with_index,
)

_log = logging.getLogger(__name__)

_MARGIN = 1000
_LINE_SECONDS = 10.0
_ATTEMPTS = 10


class RepairChoice(StrEnum):
    """What is right where the log is older than, or contradicts, volumes or what was seen."""

    TAKE_VOLUMES = "take-volumes"
    TRUST_LOG = "trust-log"


@dataclass(slots=True)
class RepairReport:
    """What was found, and read for it; `snapshot` is the newest afterwards (0: there is none).

    `is_undecided` says that nothing was done because the operator has to choose.
    """

    snapshots: int = 0
    volumes: int = 0
    bytes: int = 0
    snapshot: int = 0
    findings: list[RepairFinding] = field(default_factory=list)
    is_undecided: bool = False


def repair(
    backing: Backing,
    choice: RepairChoice | None = None,
    *,
    quick: bool = False,
    dry_run: bool = False,
    advance: Advance = lambda _: None,
) -> RepairReport:
    """Examine a warehouse and repair what can be; `quick` compares sizes only, not hashes.

    With `dry_run` nothing is done. May be killed and run again, and beside loads and readers.
    Raises `IntegrityError` where volumes contradict each other, `ConfigError` for a log of a newer
    release, `BusyError` where others write all the time; errors of the machine and of the network
    pass: what cannot be reached is not missing.
    """
    byte_count = 0

    def count(size: int) -> None:
        nonlocal byte_count
        byte_count += size
        advance(size)

    examination = Examination(backing, count, quick=quick)
    for _ in range(_ATTEMPTS):
        attempt = _Attempt(backing, examination, choice, dry_run=dry_run)
        if attempt.succeeds():
            attempt.report.bytes = byte_count
            attempt.report.findings += remove_foreign_writes(backing, dry_run=dry_run)
            return attempt.report
    raise BusyError(
        f"others kept writing snapshots to {backing.store.describe()}: run strata repair again "
        "when no load runs"
    )


def rebuild(backing: Backing) -> None:
    """Make the log again from the volumes, if it is gone and there are any.

    Another process may be faster. Raises `IntegrityError` where volumes contradict each other.
    """
    state = read_state(backing)
    if state.numbers or not (infos := _volume_files(backing)):
        return  # or a load has just begun: its first snapshot is there before its volumes
    place = backing.store.describe()
    _log.warning("%s has volumes and no log: it is rebuilt from %d files", place, len(infos))
    examination = Examination(backing, _logged_progress(), quick=False)
    attempt = _Attempt(backing, examination, None, dry_run=False)
    if attempt.begins(state):
        for finding in attempt.report.findings:
            _log.warning("%s: %s: %s", finding.what, finding.problem, finding.remedy)
        number = attempt.report.snapshot
        _log.warning("%s: snapshot %d; refused files are tried again", place, number)


def _logged_progress() -> Advance:
    """Log how many bytes were read, a line now and then."""
    byte_count, last = 0, Moment.now()

    def advance(size: int) -> None:
        nonlocal byte_count, last
        byte_count += size
        if last.passed() >= _LINE_SECONDS:
            last = Moment.now()
            _log.warning("rebuilding: %.1f GB read", byte_count / 1e9)

    return advance


def _volume_files(backing: Backing) -> list[ObjectInfo]:
    folders = ("manifests", "state")
    return [info for folder in folders for info in listed_volumes(backing.store, folder)]


def _beyond(snapshots: Iterable[int]) -> int:
    """A snapshot that nobody can have seen, where these are known to have been there.

    Machines refuse a log that is older than what they saw, and a volume says only upon which
    snapshot it was built: commits that followed it are counted by nobody.
    """
    return max(snapshots, default=0) + _MARGIN


class _Attempt:
    """One attempt; it does not succeed where another process wrote a snapshot meanwhile."""

    def __init__(
        self,
        backing: Backing,
        examination: Examination,
        choice: RepairChoice | None,
        *,
        dry_run: bool,
    ) -> None:
        self._backing = backing
        self._place = backing.store.describe()
        self._examination = examination
        self._choice = choice
        self._dry_run = dry_run
        self.report = RepairReport()

    def succeeds(self) -> bool:
        """Make the attempt."""
        state = read_state(self._backing)
        self.report.snapshots = state.read
        for number, problem in state.damaged:
            self._find(snapshot_key(number), problem, "a new snapshot follows it")
        conflict = state.conflict(self._place)
        base = state.sound if conflict else state.newest()
        later = later_volumes(self._backing, base, state.top) if base else {}
        if base and later and not conflict:
            if self._backing.log.numbers()[-1:] != [state.top]:
                return False  # who wrote the later snapshots built these volumes just now
            conflict = older_log(self._backing, base, later)
        if conflict and self._choice is None:
            self._explain(conflict, base)
            return True
        if conflict:
            self._find("log", conflict, f"you chose --{self._choice}")
            if self._choice is RepairChoice.TAKE_VOLUMES:
                base = state.last_seen if state.conflict(self._place) else base
            elif base is None and state.last_seen:
                base = replace(new_warehouse(), warehouse=state.last_seen.warehouse)
        if base is None:
            return self.begins(state)
        accepted = base.losses if self._choice is RepairChoice.TRUST_LOG else ()
        for loss in accepted:
            self._find("log", f"it misses {loss}", f"missed no more: you chose --{self._choice}")
        base = replace(base, losses=()) if accepted else base
        seen_snapshot = state.last_seen.number if state.last_seen else 0
        origins = (origin.snapshot for origin in later.values())
        number = _beyond([state.top, seen_snapshot, *origins]) if conflict else state.top + 1
        return self._continue(state, base, number, is_forced=bool(conflict or accepted))

    def _explain(self, conflict: str, base: Snapshot | None) -> None:
        """Say what an operator can choose from, and what it would mean for each volume."""
        self.report.is_undecided = True
        self.report.snapshot = base.number if base else 0
        self._find(
            "log",
            conflict,
            "choose: strata repair --take-volumes, if the volumes that the log does not name are "
            "right; strata repair --trust-log, if the log is",
        )
        snapshot = base or new_warehouse()
        for info in lacking(
            listed(self._backing.store, "manifests"), snapshot.named_keys(), snapshot.history()
        ):
            self._find(
                info.key,
                "no snapshot in the log names it",
                "--take-volumes: taken in; --trust-log: left where it is",
            )

    def begins(self, state: LogState) -> bool:
        """Make a snapshot where there is none that could be read."""
        infos = _volume_files(self._backing)
        if not infos and not state.numbers:
            self._find(self._place, "there is no log and no volume", "is this the right place?")
            return True
        what = f"there are {len(infos)} volumes" if infos else "there is no volume"
        remedy = "a snapshot is made from the volumes"
        self._find("log", f"there is no sound snapshot; {what}", remedy)
        self.report.volumes = len(infos)
        base = new_warehouse()
        entries = self._examination.takeable(base, base, self.report.findings)
        if self._dry_run or not (entries or state.numbers):
            return True
        target = base.with_volumes(self._indexed(chosen_volumes([], entries)))
        if entries:
            captures = newest_captures(self._backing)
            target = replace(target, chain_id=entries[0].chain_id, captures=captures)
        number = _beyond([state.top, *(entry.origin.snapshot for entry in entries)])
        base = replace(base, warehouse=self._warehouse(entries, base), number=number - 1)
        created = self._backing.log.create(following(base, "", target, ()))
        return created is not None and self._wrote(created, state)

    def _warehouse(self, entries: Collection[FoundVolume], base: Snapshot) -> str:
        warehouses = {entry.origin.warehouse for entry in entries}
        if len(warehouses) > 1:
            _log.warning("%s has volumes that were made for several warehouses", self._place)
        return warehouses.pop() if len(warehouses) == 1 else base.warehouse

    def _indexed(self, volumes: Iterable[Volume]) -> list[Volume]:
        """The volumes with their index files, which are made where one lacks."""
        return [item if item.index else with_index(self._backing, item) for item in volumes]

    def _continue(self, state: LogState, base: Snapshot, number: int, *, is_forced: bool) -> bool:
        """Make the snapshot that follows, if there is a reason to."""
        findings = self.report.findings
        self.report.snapshot = base.number
        self.report.volumes = len(base.volumes)
        remainder = self._examination.kept(base, findings)
        entries = []
        if self._choice is not RepairChoice.TRUST_LOG:
            entries = self._examination.takeable(base, remainder, findings)
        volumes = chosen_volumes(remainder.volumes, entries)
        for volume in volumes:
            if volume not in remainder.volumes:
                self._find(volume.key, "no snapshot in the log names it", "taken in")
        if state.gap:
            problem = f"the snapshots from number {state.gap} to {state.top - 1} are missing"
            self._find("log", problem, f"the newest one is repeated at {state.gap}")
        if self._dry_run:
            return True
        if state.gap and state.sound and not self._backing.log.bridge(state.sound, state.gap):
            return False
        chain_id = remainder.chain_id or (entries[0].chain_id if entries else "")
        target = replace(remainder, chain_id=chain_id).with_volumes(self._indexed(volumes))
        if target == base and not state.damaged and not is_forced:
            return True
        parent = state.parent if base is state.sound and number == base.number + 1 else ""
        snapshot = following(replace(base, number=number - 1), parent, target, ())
        created = self._backing.log.create(snapshot)
        return created is not None and self._wrote(created, state)

    def _wrote(self, snapshot: Snapshot, state: LogState) -> bool:
        """A snapshot is there; who knows the one before a gap must notice it."""
        self.report.snapshot = snapshot.number
        if not state.numbers or snapshot.number == state.top + 1:
            return True
        return self._backing.log.bridge(snapshot, state.top + 1)

    def _find(self, what: str, problem: str, remedy: str) -> None:
        self.report.findings.append(RepairFinding(what, problem, remedy))
