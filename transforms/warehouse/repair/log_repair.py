"""Repair: the log is made again, or goes on, from the files that are there.

One rule: of the newest snapshot that can be read all that is sound stays, then each sound run of
segments is named that shares no block with these, longer ones first. No file is removed but what
other programs wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.duck import read_only_connection, working_connection
from transforms.duck_files import FOREIGN_LOG, remove_log
from transforms.errors import BusyError, IntegrityError
from transforms.objects import ObjectInfo, StoredFile
from transforms.scratch import scratch_folder
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.lost_files import damage
from transforms.warehouse.load.volume_storage import INDEX, store_new
from transforms.warehouse.load.volumes import volume_sources, write_index
from transforms.warehouse.log.addition import newest_states
from transforms.warehouse.log.log import LOG, next_generation, snapshot_key
from transforms.warehouse.log.snapshot import Snapshot, following, new_warehouse
from transforms.warehouse.manifests.manifest import (
    About,
    manifest_receipts,
    read_about,
    read_manifest,
    volume_of,
)
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.repair.older_log import (
    lacking,
    listed,
    listed_file,
    read_state,
    volume_blocks,
)
from transforms.warehouse.views.catalog_file import CatalogFile

Advance = Callable[[int], None]
"""Called with the bytes that were just read."""

_UNNAMED = "no snapshot in the log names it"
_SHARES = "it has blocks that lack, and others that are named"
_LEFT = "left where it is, not named: load its segments"
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


def repair(backing: Backing, advance: Advance = lambda _: None) -> RepairReport:
    """Examine a warehouse and repair what can be.

    May be killed and run again, and beside loads and readers. Raises `ConfigError` for a log of a
    newer release, `BusyError` where another process repairs; errors of the machine and of the
    network pass: what cannot be reached is not missing.
    """
    attempt = _Repair(backing, advance)
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

    `bad` are its files that are missing or damaged, `others` sound volumes that it does not name
    with what their manifests say, `indexed` volumes whose index file was made again, by key.
    """

    def __init__(self, backing: Backing, advance: Advance) -> None:
        self.backing, self.advance = backing, advance
        self.place = backing.store.describe()
        self.report = RepairReport()
        self.state = read_state(backing)
        self.base = self.state.end.sound or new_warehouse()
        self.chain_id = self.base.chain_id
        self.bad = frozenset[StoredFile]()
        self.others: list[tuple[Volume, About]] = []
        self.indexed: dict[str, Volume] = {}

    def run(self) -> None:
        """Examine, and write a snapshot if there is a reason to."""
        state = self.state
        if not (state.end.top or state.infos):
            self._find(self.place, "there is no log and no volume", "is this the right place?")
            return
        self._examine_log()
        begins = bool(self.report.findings)
        self.report.volumes = len(self.base.volumes) or len(state.infos)
        self.bad = frozenset(self._bad_files())
        kept = _without(self.base, self.bad)
        self._take_history(kept)
        self._take_states(kept)
        named, volumes = self.base.named_keys(), self._applied(self.base).volumes
        for volume in volumes:
            if volume.key not in named:
                self._find(volume.key, _UNNAMED, "taken in")
        bare = (volume for volume in volumes if volume.index is None)
        self.indexed = {volume.key: self._with_index(volume) for volume in bare}
        if begins:
            self._begin()
        else:
            self.report.snapshot = self.backing.log.commit(self._changed).number

    def _examine_log(self) -> None:
        state = self.state
        for number, problem in state.end.damaged:
            self._find(snapshot_key(number), problem, "a new snapshot follows it")
        if state.conflict:
            self._find(LOG, state.conflict, "a new snapshot follows")
        elif state.end.sound is None:
            what = f"there is no sound snapshot; there are {len(state.infos)} volumes"
            self._find(LOG, what, "a snapshot is made from the volumes")

    def _bad_files(self) -> Iterator[StoredFile]:
        """The files of the snapshot that are missing or damaged."""
        for file in dict.fromkeys(self.base.files()):
            if problem := damage(self.backing.store, file, self._count):
                remedy = _REMEDIES.get(file.key.partition("/")[0], _LOAD_AGAIN)
                self._find(file.key, f"it {problem}", remedy)
                yield file

    def _count(self, size: int) -> None:
        self.report.bytes += size
        self.advance(size)

    def _take_history(self, kept: Snapshot) -> None:
        """Take the sound runs of segments that share no block with what is kept."""
        named, present = self.base.named_keys(), [volume.blocks for volume in kept.history()]
        for info in sorted(lacking(self.state.infos, kept), key=_length, reverse=True):
            blocks = volume_blocks(info.key)
            if info.key in named or blocks is None or any(map(blocks.overlaps, present)):
                continue
            if self._take(info):
                present.append(blocks)
        examined = {finding.what for finding in self.report.findings} | named
        for info in lacking(self.state.infos, self._applied(self.base)):
            if info.key not in examined:
                self._find(info.key, _SHARES, _LEFT)

    def _take_states(self, kept: Snapshot) -> None:
        """Take states that are later than all that are kept; any where one of these is lost."""
        named, states = self.base.named_keys(), kept.states()
        is_lost = len(states) < len(self.base.states())
        for info in self.state.infos:
            blocks = volume_blocks(info.key) if info.key.startswith("state/") else None
            if blocks is None or info.key in named:
                continue
            if is_lost or not states or states[-1].blocks < blocks:
                self._take(info)

    def _take(self, info: ObjectInfo) -> bool:
        """Take a volume if it is sound and of the chain."""
        try:
            volume, about, chain_id = self._described(info)
            is_other = self.chain_id not in ("", chain_id)
            problem = f"it is of the chain {chain_id}, not {self.chain_id}" if is_other else ""
        except (IntegrityError, FileNotFoundError) as error:
            problem = str(error)
        if problem:
            self._find(info.key, problem, _LEFT)
            return False
        self.chain_id = chain_id
        self.others.append((volume, about))
        return True

    def _described(self, info: ObjectInfo) -> tuple[Volume, About, str]:
        """A volume as its manifest has it, what that says, and the chain; all files are hashed.

        Raises `IntegrityError` where one is damaged, gone or not what its name says.
        """
        file = listed_file(info)
        self._check_whole(file)
        self.backing.files.bring([file])
        path = self.backing.files.path(file)
        segments, about = read_manifest(path), read_about(path)
        volume = volume_of(file, about, segments, [*manifest_receipts([path])])
        if volume.blocks != volume_blocks(info.key):
            place = self.backing.store.describe(file.key)
            raise IntegrityError(f"{place} holds the blocks {volume.blocks}: it was renamed")
        for data in about.data.values():
            self._check_whole(data)
        if volume.index and damage(self.backing.store, volume.index):
            volume = replace(volume, index=None)
        return volume, about, segments[0].name.chain_id

    def _check_whole(self, file: StoredFile) -> None:
        if problem := damage(self.backing.store, file, self._count):
            raise IntegrityError(f"{self.backing.store.describe(file.key)} {problem}")

    def _with_index(self, volume: Volume) -> Volume:
        """A volume with its index file, which is made from its tables."""
        backing = self.backing
        with (
            backing.files.hold(volume.data.values()),
            scratch_folder(backing.scratch) as scratch,
            working_connection(scratch, memory_limit=backing.rendering_limit) as con,
        ):
            path = write_index(con, scratch, volume_sources(backing.files, volume))
            if path is None:
                return volume
            index = store_new(backing, INDEX, volume.blocks, path)
            return replace(volume, index=index)

    def _applied(self, newest: Snapshot) -> Snapshot:
        """A snapshot as repaired; what other processes named since it was examined stays."""
        kept = _without(newest, self.bad)
        history, others = kept.history(), [volume for volume, _ in self.others]
        for volume in others:
            is_free = not any(volume.blocks.overlaps(other.blocks) for other in history)
            if volume.kind == "history" and is_free:
                history.append(volume)
        states = [
            volume
            for volume in others
            if volume.kind == "state" and any(v.blocks.overlaps(volume.blocks) for v in history)
        ]
        # Of two states after the same block the last one counts, which is the named one.
        volumes = [*history, *newest_states([*states, *kept.states()])]
        kept = replace(kept, chain_id=kept.chain_id or self.chain_id)
        return kept.with_volumes(self.indexed.get(volume.key, volume) for volume in volumes)

    def _changed(self, newest: Snapshot) -> Snapshot | None:
        target = self._applied(newest)
        return None if target == newest else target

    def _begin(self) -> None:
        """Write a snapshot that follows none, beyond all that anybody can have seen.

        It is repeated after the newest, before and afterwards: whoever knows that one looks there.
        """
        base, state = self.base, self.state
        target = replace(self._applied(base), captures=self._newest_captures())
        if not base.number and (state.last_seen or self.others):
            seen = state.last_seen or self.others[0][1]
            base = replace(base, warehouse=seen.warehouse)
        latest = max([state.latest, *(about.snapshot for _, about in self.others)])
        top, beyond = state.end.top, next_generation(latest)
        numbers = [top + 1, beyond, top + 2] if top else [beyond]
        snapshot = following(replace(base, number=numbers[0] - 1), "", target, ())
        for number in numbers:
            if self.backing.log.create(replace(snapshot, number=number)) is None:
                raise BusyError(
                    f"another process wrote to the log of {self.place} meanwhile: run strata "
                    "repair again"
                )
        self.report.snapshot = max(numbers)

    def _newest_captures(self) -> StoredFile | None:
        """The sound file of spam captures that was made of the most files; None without one.

        Each was made of all that its older one was; what lacks is loaded again from its source.
        """
        sound: list[tuple[int, StoredFile]] = []
        for info in listed(self.backing.store, "spam"):
            file = StoredFile(info.key, info.size, Path(info.key).stem)
            if not damage(self.backing.store, file):
                self.backing.files.bring([file])
                path = self.backing.files.path(file)
                with read_only_connection(path, threads=1) as con:
                    ((count,),) = con.execute("select count(*) from files").fetchall()
                sound.append((count, file))
        return max(sound)[1] if sound else None

    def _find(self, what: str, problem: str, remedy: str) -> None:
        self.report.findings.append(RepairFinding(what, problem, remedy))


def _length(info: ObjectInfo) -> tuple[int, str]:
    blocks = volume_blocks(info.key) or BlockRange(0, 0)
    return blocks.last - blocks.first, info.key


def remove_foreign_writes(backing: Backing) -> Iterator[RepairFinding]:
    """Remove what other programs wrote to files of DuckDB: logs beside them, views of their own."""
    for name in ("state", "spam"):
        for log in sorted((backing.files.folder / name).glob("*.duckdb.wal")):
            remove_log(log.with_suffix(""))
            yield RepairFinding(f"{name}/{log.name}", FOREIGN_LOG, "the log is removed")
    current = CatalogFile(backing)
    path = current.path()
    if path.is_file() and (difference := current.difference()):
        path.unlink()
        remove_log(path)
        yield RepairFinding(path.name, difference, "removed: the next command makes it anew")
