"""Repair: the log is made again, or goes on, from the files that are there.

One rule: named files that are missing or damaged are no longer named; volumes that are sound, agree
with the rest and have blocks that it lacks are named. Who puts an older log there on purpose says
that it is to be trusted. No file is removed but what other programs wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from transforms.duck_files import FOREIGN_LOG, remove_log
from transforms.errors import BusyError, IntegrityError
from transforms.objects import StoredFile
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.lost_files import absent_files, damage
from transforms.warehouse.log.log import LOG, next_generation, snapshot_key
from transforms.warehouse.log.snapshot import Snapshot, following, new_warehouse
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.repair.older_log import lacking, read_state, volume_blocks
from transforms.warehouse.repair.volume_description import (
    Advance,
    VolumeDescription,
    check_agreement,
    chosen_volumes,
    describe_volume,
    disagreement,
    newest_captures,
    with_index,
)
from transforms.warehouse.views.catalog_file import CatalogFile, read_record

_UNNAMED = "no snapshot in the log names it"
_LOAD_AGAIN = "no longer named: load its segments again, unless others hold them"
_REMEDIES = {
    "index": "made again from its tables",
    "spam": "no longer named: load the spam captures again",
    "quarantine": "no longer named: the refused file is tried again",
}


@dataclass(frozen=True, slots=True)
class RepairFinding:
    """A file (or the log) with what is wrong with it, and what is done about it."""

    what: str
    problem: str
    remedy: str


@dataclass(slots=True)
class RepairReport:
    """What was found, and read for it; `snapshot` is the newest afterwards (0: there is none)."""

    volumes: int = 0
    bytes: int = 0
    snapshot: int = 0
    findings: list[RepairFinding] = field(default_factory=list)


def repair(
    backing: Backing,
    *,
    trust_log: bool = False,
    quick: bool = False,
    advance: Advance = lambda _: None,
) -> RepairReport:
    """Examine a warehouse and repair what can be; `quick` compares named files' sizes only.

    With `trust_log`, a sound log is right: what it does not name is left, and nothing is missed.
    May be killed and run again, and beside loads and readers. Raises `IntegrityError` where volumes
    contradict each other, `ConfigError` for a log of a newer release, `BusyError` where another
    process repairs; errors of the machine and of the network pass: what cannot be reached is not
    missing.
    """
    attempt = _Repair(backing, trust_log, advance, quick)
    attempt.run()
    attempt.report.findings += remove_foreign_writes(backing)
    return attempt.report


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
    """What is wrong with the files of the newest sound snapshot, `base`, and what is done about it.

    `bad` are its files that are missing or damaged, `others` volumes that are to be named, of a
    chain; `indexed` are volumes with an index file that was made again, by key.
    """

    def __init__(self, backing: Backing, trust_log: bool, advance: Advance, quick: bool) -> None:
        self.backing, self.advance, self.quick = backing, advance, quick
        self.place = backing.store.describe()
        self.report = RepairReport()
        self.state = read_state(backing)
        self.base = self.state.end.sound or new_warehouse()
        self.is_trusted = trust_log and bool(self.base.number)
        self.bad = frozenset[StoredFile]()
        self.others: Sequence[VolumeDescription] = ()
        self.indexed: dict[str, Volume] = {}

    def run(self) -> None:
        """Examine, and write a snapshot if there is a reason to."""
        if not (self.state.end.top or self.state.infos):
            self._find(self.place, "there is no log and no volume", "is this the right place?")
            return
        self._examine_log()
        begins = bool(self.report.findings)
        self._examine_files()
        if begins:
            self._begin()
        else:
            self.report.snapshot = self.backing.log.commit(self._changed).number

    def _examine_log(self) -> None:
        state, end = self.state, self.state.end
        for number, problem in end.damaged:
            self._find(snapshot_key(number), problem, "a new snapshot follows it")
        if state.conflict:
            self._find(LOG, state.conflict, "a new snapshot follows")
        elif end.sound is None:
            what = f"there is no sound snapshot; there are {len(state.infos)} volumes"
            self._find(LOG, what, "a snapshot is made from the volumes")
        for loss in self.base.losses if self.is_trusted else ():
            self._find(LOG, f"it misses {loss}", "missed no more")

    def _examine_files(self) -> None:
        """Find what is to be done, all of which is in the report; make index files again."""
        base = self.base
        self.report.volumes = len(base.volumes) or len(self.state.infos)
        self.bad = frozenset(self._bad_files(base))
        if not self.is_trusted:
            self.others = [*self._sound_volumes(base, _without(base, self.bad))]
        check_agreement(self.others, self.place)
        named, volumes = base.named_keys(), self._applied(base).volumes
        for volume in volumes:
            if volume.key not in named:
                self._find(volume.key, _UNNAMED, "taken in")
        bare = (volume for volume in volumes if volume.index is None)
        self.indexed = {volume.key: with_index(self.backing, volume) for volume in bare}

    def _applied(self, newest: Snapshot) -> Snapshot:
        """A snapshot as repaired; what other processes named since it was examined stays."""
        kept, examined = _without(newest, self.bad), self.base.named_keys()
        fresh = [volume.blocks for volume in newest.history() if volume.key not in examined]
        others = [v.volume for v in self.others if not any(map(v.volume.blocks.overlaps, fresh))]
        volumes = chosen_volumes(kept.volumes, others)
        chain_id = kept.chain_id or (self.others[0].chain_id if self.others else "")
        kept = replace(kept, chain_id=chain_id)
        return kept.with_volumes(self.indexed.get(volume.key, volume) for volume in volumes)

    def _changed(self, newest: Snapshot) -> Snapshot | None:
        target = self._applied(newest)
        return None if target == newest else target

    def _bad_files(self, base: Snapshot) -> Iterator[StoredFile]:
        """The files of a snapshot that are missing or damaged."""
        files = dict.fromkeys(base.files())
        absent = absent_files(self.backing.store, files) if self.quick else {}
        for file in files:
            problem = absent.get(file, "")
            if not self.quick:
                problem = damage(self.backing.store, file, self._count)
            if problem:
                remedy = _REMEDIES.get(file.key.partition("/")[0], _LOAD_AGAIN)
                self._find(file.key, f"it {problem}", remedy)
                yield file

    def _count(self, size: int) -> None:
        self.report.bytes += size
        self.advance(size)

    def _sound_volumes(self, base: Snapshot, remainder: Snapshot) -> Iterator[VolumeDescription]:
        """Volumes that are not named, with what `remainder` lacks, which agree with it."""
        named, segments = base.named_keys(), self.backing.catalog(remainder).segments
        infos = [*lacking(self.state.infos, remainder)]
        # States that are later than all that are left; any where one of these is lost.
        last = max((state.blocks for state in remainder.states()), default=None)
        is_lost = len(remainder.states()) < len(base.states())
        for info in self.state.infos:
            blocks = volume_blocks(info.key) if info.key.startswith("state/") else None
            if blocks and (last is None or is_lost or last < blocks):
                infos.append(info)
        for info in infos:
            if info.key in named:  # and bad
                continue
            try:
                entry = describe_volume(self.backing, info, self._count)
                problem = disagreement(entry, remainder, segments)
            except (IntegrityError, FileNotFoundError) as error:
                problem = str(error)
            if problem:
                self._find(info.key, problem, "left where it is, not named: load its segments")
            else:
                yield entry

    def _begin(self) -> None:
        """Write a snapshot that follows none, beyond all that anybody can have seen.

        It is repeated after the newest, before and afterwards: whoever knows that one looks there.
        """
        base, target, state = self.base, self._applied(self.base), self.state
        if not base.number:
            origin = {other.origin.warehouse for other in self.others}
            known = {state.last_seen.warehouse} if state.last_seen else origin
            base = replace(base, warehouse=known.pop() if len(known) == 1 else base.warehouse)
        if self.is_trusted:
            base = replace(base, losses=())
        else:
            target = replace(target, captures=newest_captures(self.backing))
        origins = (other.origin.snapshot for other in self.others)
        top, beyond = state.end.top, next_generation(max([state.latest, *origins]))
        numbers = [top + 1, beyond, top + 2] if top else [beyond]
        snapshot = following(replace(base, number=numbers[0] - 1), "", target, ())
        for number in numbers:
            if self.backing.log.create(replace(snapshot, number=number)) is None:
                raise BusyError(
                    f"another process wrote to the log of {self.place} meanwhile: run strata "
                    "repair again"
                )
        self.report.snapshot = max(numbers)

    def _find(self, what: str, problem: str, remedy: str) -> None:
        self.report.findings.append(RepairFinding(what, problem, remedy))


def remove_foreign_writes(backing: Backing) -> Iterator[RepairFinding]:
    """Remove what other programs wrote to files of DuckDB: logs beside them, views of their own."""
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
