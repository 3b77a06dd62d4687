"""Repair: the log is made again, or goes on, from the files that are there.

One rule: named files that are missing or damaged are no longer named; volumes that are sound, agree
with the rest and have blocks that it lacks are named. Where the log is not the one that was seen,
or is older than volumes, a person chooses. No file is removed but what other programs wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from transforms.duck_files import FOREIGN_LOG, remove_log
from transforms.errors import BusyError, IntegrityError
from transforms.objects import StoredFile
from transforms.stores.store import object_sha256
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.lost_files import MISSING, absent_files
from transforms.warehouse.log.log import LOG, next_generation, snapshot_key
from transforms.warehouse.log.snapshot import Snapshot, following, new_warehouse
from transforms.warehouse.manifests.manifest_rows import Origin
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.repair.older_log import lacking, read_state
from transforms.warehouse.repair.volume_description import (
    Advance,
    VolumeDescription,
    check_agreement,
    chosen_volumes,
    describe_volume,
    disagreement,
    newer_states,
    newest_captures,
    with_index,
)
from transforms.warehouse.views.catalog_file import CatalogFile, read_record

_UNNAMED = "no snapshot in the log names it"


class RepairChoice(StrEnum):
    """What is right where the log is older than, or contradicts, volumes or what was seen."""

    TAKE_VOLUMES = "take-volumes"
    TRUST_LOG = "trust-log"


@dataclass(frozen=True, slots=True)
class RepairFinding:
    """A file (or the log) with what is wrong with it, and what is done about it."""

    what: str
    problem: str
    remedy: str


@dataclass(slots=True)
class RepairReport:
    """What was found, and read for it; `snapshot` is the newest afterwards (0: there is none).

    `is_undecided` says that nothing was done because the operator has to choose.
    """

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
    advance: Advance = lambda _: None,
) -> RepairReport:
    """Examine a warehouse and repair what can be; `quick` compares named files' sizes only.

    May be killed and run again, and beside loads and readers. Raises `IntegrityError` where volumes
    contradict each other, `ConfigError` for a log of a newer release, `BusyError` where another
    process repairs; errors of the machine and of the network pass: what cannot be reached is not
    missing.
    """
    attempt = _Repair(backing, choice, advance, quick=quick)
    attempt.run()
    attempt.report.findings += remove_foreign_writes(backing)
    return attempt.report


@dataclass(frozen=True, slots=True)
class _Change:
    """What is done to a snapshot: `base` is the one that was examined.

    `bad` are its files that are missing or damaged, `others` volumes that are to be named, of a
    chain; `indexed` are volumes with an index file that was made again, by key.
    """

    base: Snapshot
    bad: frozenset[StoredFile]
    chain_id: str = ""
    others: Sequence[Volume] = ()
    indexed: Mapping[str, Volume] = field(default_factory=dict)

    def applied(self, newest: Snapshot) -> Snapshot:
        """The snapshot with it; what other processes named since it was examined stays."""
        kept = _without(newest, self.bad)
        examined = self.base.named_keys()
        fresh = [volume.blocks for volume in newest.history() if volume.key not in examined]
        others = [v for v in self.others if not any(blocks.overlaps(v.blocks) for blocks in fresh)]
        volumes = chosen_volumes(kept.volumes, others)
        kept = replace(kept, chain_id=kept.chain_id or self.chain_id)
        return kept.with_volumes(self.indexed.get(volume.key, volume) for volume in volumes)


def _without(snapshot: Snapshot, bad: frozenset[StoredFile]) -> Snapshot:
    """The snapshot without files; a volume may lack its index file, and no other."""
    quarantine = tuple(
        replace(refused, copy=None) if refused.copy in bad else refused
        for refused in snapshot.quarantine
    )
    captures = None if snapshot.captures in bad else snapshot.captures
    volumes = [
        replace(volume, index=None) if volume.index in bad else volume
        for volume in snapshot.volumes
        if bad.isdisjoint(volume.row_files)
    ]
    return replace(snapshot, captures=captures, quarantine=quarantine).with_volumes(volumes)


class _Repair:
    def __init__(
        self, backing: Backing, choice: RepairChoice | None, advance: Advance, *, quick: bool
    ) -> None:
        self._backing = backing
        self._choice = choice
        self._advance = advance
        self._quick = quick
        self._state = read_state(backing)
        self.report = RepairReport()

    def run(self) -> None:
        """Examine, and write a snapshot if there is a reason to."""
        place, state, end = self._backing.store.describe(), self._state, self._state.end
        if state.conflict and self._choice is None:
            self._explain()
            return
        if not (state.conflict or end.top or state.infos):
            self._find(place, "there is no log and no volume", "is this the right place?")
            return
        for number, problem in end.damaged:
            self._find(snapshot_key(number), problem, "a new snapshot follows it")
        if state.conflict:
            self._find(LOG, state.conflict, f"you chose --{self._choice}")
        elif end.sound is None:
            what = f"there is no sound snapshot; there are {len(state.infos)} volumes"
            self._find(LOG, what, "a snapshot is made from the volumes")
        self._repair(self._base())

    def _explain(self) -> None:
        """Say what an operator can choose from, and what it would mean for each volume."""
        self.report.is_undecided = True
        self.report.snapshot = self._state.end.top
        self._find(
            LOG,
            self._state.conflict,
            "choose: strata repair --take-volumes, if the volumes that the log does not name are "
            "right; strata repair --trust-log, if the log is",
        )
        for info in lacking(self._state.infos, self._state.end.sound or new_warehouse()):
            remedy = "--take-volumes: taken in; --trust-log: left where it is"
            self._find(info.key, _UNNAMED, remedy)

    def _base(self) -> Snapshot:
        """What is held against the files: the newest sound snapshot, or an empty one."""
        sound, last_seen = self._state.end.sound, self._state.last_seen
        if last_seen is None:
            return sound or new_warehouse()
        is_taken = self._choice is RepairChoice.TAKE_VOLUMES
        # Of another warehouse's log the volumes may be taken, and ours goes on.
        if sound and not (is_taken and sound.warehouse != last_seen.warehouse):
            return sound
        return replace(new_warehouse(), warehouse=last_seen.warehouse)

    def _repair(self, base: Snapshot) -> None:
        is_trusted = self._choice is RepairChoice.TRUST_LOG
        for loss in base.losses if is_trusted else ():
            self._find(LOG, f"it misses {loss}", f"missed no more: you chose --{self._choice}")
        begins = bool(self.report.findings)
        self.report.volumes = len(base.volumes) or len(self._state.infos)
        bad = frozenset(self._bad_files(base))
        entries = [] if is_trusted else [*self._sound_volumes(base, _without(base, bad))]
        check_agreement(entries, self._backing.store.describe())
        chain_id = entries[0].chain_id if entries else ""
        change = _Change(base, bad, chain_id, [entry.volume for entry in entries])
        named = base.named_keys()
        for volume in (target := change.applied(base)).volumes:
            if volume.key not in named:
                self._find(volume.key, _UNNAMED, "taken in")
        bare = (volume for volume in target.volumes if volume.index is None)
        indexed = {volume.key: with_index(self._backing, volume) for volume in bare}
        change = replace(change, indexed=indexed)
        if begins:
            self._begin(change, [entry.origin for entry in entries])
        else:
            self._go_on(change)

    def _bad_files(self, base: Snapshot) -> Iterator[StoredFile]:
        """The files of a snapshot that are missing or damaged."""
        files = dict.fromkeys(base.files())
        absent = absent_files(self._backing.store, files)
        for file in files:
            problem = f"it {absent[file]}" if file in absent else self._problem(file)
            if problem:
                folder = file.key.partition("/")[0]
                self._find(file.key, problem, _REMEDIES.get(folder, _LOAD_AGAIN))
                yield file

    def _problem(self, file: StoredFile) -> str:
        """What is wrong with a file that is there, with all its bytes."""
        if self._quick:
            return ""
        try:
            digest = object_sha256(self._backing.store, file.key, self._count)
        except FileNotFoundError:
            return f"it {MISSING}"
        same = digest == file.sha256
        return "" if same else f"it is damaged: it hashes to {digest}, not {file.sha256}"

    def _count(self, size: int) -> None:
        self.report.bytes += size
        self._advance(size)

    def _sound_volumes(self, base: Snapshot, remainder: Snapshot) -> Iterator[VolumeDescription]:
        """Volumes that are not named, with what `remainder` lacks, which agree with it."""
        named, segments = base.named_keys(), self._backing.catalog(remainder).segments
        states = remainder.states() if len(remainder.states()) == len(base.states()) else []
        newer = newer_states(self._state.infos, states)
        for info in (*lacking(self._state.infos, remainder), *newer):
            if info.key in named:  # and bad
                continue
            try:
                entry = describe_volume(self._backing, info, self._count)
                problem = disagreement(entry, remainder, segments)
            except (IntegrityError, FileNotFoundError) as error:
                problem = str(error)
            if problem:
                self._find(info.key, problem, "left where it is, not named: load its segments")
            else:
                yield entry

    def _go_on(self, change: _Change) -> None:
        """Commit the change, to whichever snapshot is the newest by then."""

        def changed(newest: Snapshot) -> Snapshot | None:
            target = change.applied(newest)
            return None if target == newest else target

        self.report.snapshot = self._backing.log.commit(changed).number

    def _begin(self, change: _Change, origins: Sequence[Origin]) -> None:
        """Write a snapshot that follows none.

        Where the newest is not the right one it is beyond all that anybody can have seen, and
        repeated after the newest, before and afterwards: whoever knows that one looks there.
        """
        base, target = change.base, change.applied(change.base)
        warehouses = {origin.warehouse for origin in origins}
        if not base.number and not self._state.last_seen and len(warehouses) == 1:
            base = replace(base, warehouse=warehouses.pop())
        if self._choice is RepairChoice.TRUST_LOG:
            base = replace(base, losses=())
        else:
            target = replace(target, captures=newest_captures(self._backing))
        top, numbers = self._state.end.top, [self._state.end.top + 1]
        if self._state.conflict or self._state.end.sound is None:
            seen = self._state.last_seen.number if self._state.last_seen else 0
            later = [*self._state.later.values(), *(origin.snapshot for origin in origins)]
            beyond = next_generation(max([top, seen, *later]))
            numbers = [top + 1, beyond, top + 2] if top else [beyond]
        snapshot = following(replace(base, number=numbers[0] - 1), "", target, ())
        for number in numbers:
            if self._backing.log.create(replace(snapshot, number=number)) is None:
                raise BusyError(
                    f"another process wrote to the log of {self._backing.store.describe()} "
                    "meanwhile: run strata repair again"
                )
        self.report.snapshot = max(numbers)

    def _find(self, what: str, problem: str, remedy: str) -> None:
        self.report.findings.append(RepairFinding(what, problem, remedy))


_LOAD_AGAIN = "no longer named: load its segments again, unless others hold them"
_REMEDIES = {
    "index": "made again from its tables",
    "spam": "no longer named: load the spam captures again",
    "quarantine": "no longer named: the refused file is tried again",
}


def remove_foreign_writes(backing: Backing) -> Iterator[RepairFinding]:
    """Remove the logs beside files of DuckDB, and a file of views that is not as it was made.

    Other programs wrote these to files that only we write.
    """
    for name in ("state", "spam"):
        folder = backing.store.path(name) or backing.cache / name
        for log in sorted(folder.glob("*.duckdb.wal")):
            remove_log(log.with_suffix(""))
            yield RepairFinding(f"{name}/{log.name}", FOREIGN_LOG, "the log is removed")
    path = CatalogFile.of(backing).path()
    if path.is_file() and (difference := read_record(path).difference(path)):
        path.unlink()
        remove_log(path)
        yield RepairFinding(path.name, difference, "removed: the next command makes it anew")
