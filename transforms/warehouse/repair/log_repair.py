"""Repairing a warehouse: what its log and its files say, held against each other, made one again.

Everything is done by creating a document, after the index files that it names. No file is
removed but what other programs wrote on this machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from transforms.errors import BusyError
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.log.document import Document, following, new_warehouse
from transforms.warehouse.log.log import document_key
from transforms.warehouse.repair.examination import Examination, RepairFinding
from transforms.warehouse.repair.foreign_writes import remove_foreign_writes
from transforms.warehouse.repair.log_state import LogState, read_state
from transforms.warehouse.repair.older_log import (
    lacking,
    later_volumes,
    listed,
    listed_volumes,
    older_log,
)
from transforms.warehouse.repair.rebuild import beyond, chosen_volumes, indexed, rebuild
from transforms.warehouse.repair.volume_description import Advance

_ATTEMPTS = 10


class RepairChoice(StrEnum):
    """What is right where the log is older than, or contradicts, volumes or what was seen."""

    TAKE_VOLUMES = "take-volumes"
    TRUST_LOG = "trust-log"


@dataclass(slots=True)
class RepairReport:
    """What was found, and read for it; `generation` is the newest afterwards (0: there is none).

    `is_undecided` says that nothing was done because the operator has to choose.
    """

    documents: int = 0
    volumes: int = 0
    bytes: int = 0
    generation: int = 0
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
        f"others kept writing documents to {backing.store.describe()}: run strata repair again "
        "when no load runs"
    )


class _Attempt:
    """One attempt; it does not succeed where another process wrote a document meanwhile."""

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
        self.report.documents = state.read
        for number, problem in state.damaged:
            self._find(document_key(number), problem, "a new document follows it")
        conflict = state.conflict(self._place)
        base = state.sound if conflict else state.newest()
        later = later_volumes(self._backing, base, state.top) if base else {}
        if base and later and not conflict:
            if self._backing.log.numbers()[-1:] != [state.top]:
                return False  # who wrote the later documents built these volumes just now
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
            return self._begin(state)
        accepted = base.losses if self._choice is RepairChoice.TRUST_LOG else ()
        for loss in accepted:
            self._find("log", f"it misses {loss}", f"missed no more: you chose --{self._choice}")
        base = replace(base, losses=()) if accepted else base
        seen_generation = state.last_seen.generation if state.last_seen else 0
        origins = (origin.generation for origin in later.values())
        number = beyond([state.top, seen_generation, *origins]) if conflict else state.top + 1
        return self._continue(state, base, number, is_forced=bool(conflict or accepted))

    def _explain(self, conflict: str, base: Document | None) -> None:
        """Say what an operator can choose from, and what it would mean for each volume."""
        self.report.is_undecided = True
        self.report.generation = base.generation if base else 0
        self._find(
            "log",
            conflict,
            "choose: strata repair --take-volumes, if the volumes that the log does not name are "
            "right; strata repair --trust-log, if the log is",
        )
        document = base or new_warehouse()
        for info in lacking(
            listed(self._backing.store, "manifests"), document.named_keys(), document.history()
        ):
            self._find(
                info.key,
                "no document in the log names it",
                "--take-volumes: taken in; --trust-log: left where it is",
            )

    def _begin(self, state: LogState) -> bool:
        """Make a document where there is none that could be read."""
        store = self._backing.store
        volumes = [
            info for folder in ("manifests", "state") for info in listed_volumes(store, folder)
        ]
        self.report.volumes = len(volumes)
        if not volumes and not state.numbers:
            self._find(self._place, "there is no log and no volume", "is this the right place?")
            return True
        what = f"there are {len(volumes)} volumes" if volumes else "there is no volume"
        remedy = "a document is made from the volumes"
        self._find("log", f"there is no sound document; {what}", remedy)
        if self._dry_run:
            return True
        start = new_warehouse()
        document = rebuild(self._backing, start, at_least=state.top)
        if not state.numbers:
            newest = document or self._backing.log.newest()
            self.report.generation = newest.generation if newest else 0
            return True
        if document is None and not volumes:
            base = replace(start, generation=beyond([state.top]) - 1)
            document = self._backing.log.create(following(base, "", base, ()))
        return document is not None and self._wrote(document, state)

    def _continue(self, state: LogState, base: Document, number: int, *, is_forced: bool) -> bool:
        """Make the document that follows, if there is a reason to."""
        findings = self.report.findings
        self.report.generation = base.generation
        self.report.volumes = len(base.volumes)
        remainder = self._examination.kept(base, findings)
        entries = []
        if self._choice is not RepairChoice.TRUST_LOG:
            entries = self._examination.takeable(base, remainder, findings)
        volumes = chosen_volumes(remainder.volumes, entries)
        for volume in volumes:
            if volume not in remainder.volumes:
                self._find(volume.key, "no document in the log names it", "taken in")
        if state.gap:
            problem = f"the documents from number {state.gap} to {state.top - 1} are missing"
            self._find("log", problem, f"the newest one is repeated at {state.gap}")
        if self._dry_run:
            return True
        if state.gap and state.sound and not self._backing.log.bridge(state.sound, state.gap):
            return False
        chain_id = remainder.chain_id or (entries[0].chain_id if entries else "")
        target = replace(remainder, chain_id=chain_id).with_volumes(
            [indexed(self._backing, volume) for volume in volumes]
        )
        if target == base and not state.damaged and not is_forced:
            return True
        parent = state.parent if base is state.sound and number == base.generation + 1 else ""
        document = following(replace(base, generation=number - 1), parent, target, ())
        created = self._backing.log.create(document)
        return created is not None and self._wrote(created, state)

    def _wrote(self, document: Document, state: LogState) -> bool:
        """A document is there; who knows the one before a gap must notice it."""
        self.report.generation = document.generation
        if not state.numbers or document.generation == state.top + 1:
            return True
        return self._backing.log.bridge(document, state.top + 1)

    def _find(self, what: str, problem: str, remedy: str) -> None:
        self.report.findings.append(RepairFinding(what, problem, remedy))
