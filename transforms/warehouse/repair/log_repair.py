"""Repair: the log goes on, or is made again, from the files that are there.

One rule: of the newest snapshot that can be read all that is sound stays, then each sound run of
segments is named that shares no block with these, longer ones first. Manifests of blocks that lack
even then, and damaged ones, are moved to `quarantine/`; nothing is removed but what other programs
wrote.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.duck import working_connection
from transforms.duck_files import FOREIGN_LOG, remove_log
from transforms.errors import BusyError, IntegrityError
from transforms.objects import ObjectInfo, StoredFile
from transforms.scratch import scratch_folder
from transforms.spam.capture_tables import capture_rows
from transforms.stores.store import Store, read_as_is
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.lost_files import damage
from transforms.warehouse.load.volume_storage import INDEX, store_new
from transforms.warehouse.load.volumes import volume_sources, write_index
from transforms.warehouse.log.addition import newest_states
from transforms.warehouse.log.log import snapshot_key
from transforms.warehouse.log.snapshot import Snapshot, following, new_warehouse
from transforms.warehouse.manifests.manifest import (
    About,
    manifest_receipts,
    read_about,
    read_manifest,
    volume_of,
)
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.repair.older_log import lacking, listed, listed_file, volume_blocks

Advance = Callable[[int], None]
"""Called with the bytes that were just read."""

_TYPE = "application/vnd.apache.parquet"


@dataclass(slots=True)
class RepairReport:
    """What was found: (what it is about, what is wrong with it or was done about it).

    `snapshot` is the number of the newest afterwards; 0: there is none.
    """

    snapshot: int = 0
    findings: list[tuple[str, str]] = field(default_factory=list)

    def say(self, what: str, problem: str) -> None:
        """Add a finding."""
        self.findings.append((what, problem))


def repair(backing: Backing, advance: Advance = lambda _: None) -> RepairReport:
    """Examine a warehouse and repair what can be.

    May be killed and run again, and beside loads and readers. Raises `ConfigError` for a log of a
    newer release, `BusyError` where another process repairs; errors of the machine and of the
    network pass: what cannot be reached is not missing.
    """
    report, store = RepairReport(), backing.store
    # In this order: other processes may go on meanwhile.
    infos = [info for folder in ("manifests", "state") for info in listed(store, folder)]
    sound, unsound = backing.log.newest_sound()
    base = sound or new_warehouse()
    if not (base.number or unsound or infos):
        report.say(store.describe(), "there is no log and no volume: is this the right place?")
        return report
    for number, problem in unsound.items():
        report.say(snapshot_key(number), problem)
    bad = _damaged(store, base, report, advance)
    search = _Search(backing, base.without(bad), report, advance)
    search.run(infos)
    change = partial(_repaired, bad=bad, fresh=search.volumes, chain_id=search.chain_id)
    if sound and not unsound:
        snapshot = backing.log.commit(change)
    else:
        snapshot = _begin(backing, base, max(unsound, default=0), search, change(base) or base)
    for loss in sorted({*snapshot.losses} - {*base.losses}):
        report.say(f"snapshot {snapshot.number}", f"{loss} is lost: run strata load")
    absent = [*lacking(infos, snapshot)]
    for info in dict.fromkeys((*absent, *search.disbelieved)):
        with suppress(FileNotFoundError):  # another process swept it
            remedy = ": load its segments again" if info in absent else ""
            report.say(info.key, f"moved to {_set_aside(store, info)}{remedy}")
    report.snapshot = _make_indexes(backing, snapshot)
    report.findings += remove_foreign_logs(backing)
    return report


def _damaged(
    store: Store, snapshot: Snapshot, report: RepairReport, advance: Advance
) -> set[StoredFile]:
    """The files of a snapshot that are missing or damaged."""
    bad = set[StoredFile]()
    for file in dict.fromkeys(snapshot.files()):
        if problem := damage(store, file, advance):
            report.say(file.key, f"it {problem}")
            bad.add(file)
    return bad


class _Search:
    """The search for sound volumes that `kept`, the sound part of the log, does not name.

    `found` has them, with what their manifests say; `disbelieved` are manifests that are damaged,
    or whose files are; `chain_id` is the chain of all.
    """

    def __init__(
        self, backing: Backing, kept: Snapshot, report: RepairReport, advance: Advance
    ) -> None:
        self._backing, self._kept = backing, kept
        self._report, self._advance = report, advance
        self.chain_id = kept.chain_id
        self.found: list[tuple[Volume, About]] = []
        self.disbelieved: list[ObjectInfo] = []

    @property
    def volumes(self) -> list[Volume]:
        """What was found."""
        return [volume for volume, _ in self.found]

    def run(self, infos: Sequence[ObjectInfo]) -> None:
        """Take runs of segments that share no block with others, then states of these."""
        present = [volume.blocks for volume in self._kept.history()]
        for info in sorted(lacking(infos, self._kept), key=_length, reverse=True):
            blocks = volume_blocks(info.key)
            if blocks and not any(map(blocks.overlaps, present)) and self._is_taken(info):
                present.append(blocks)
        named = self._kept.named_keys()
        for info in sorted(infos, reverse=True):
            blocks = volume_blocks(info.key) if info.key.startswith("state/") else None
            if blocks and info.key not in named and any(map(blocks.overlaps, present)):
                self._is_taken(info)

    def _is_taken(self, info: ObjectInfo) -> bool:
        """Take a volume if it is sound, of the chain, and no older state than is known."""
        try:
            described = self._described(info)
        except (IntegrityError, FileNotFoundError) as error:
            self._report.say(info.key, str(error))
            self.disbelieved.append(info)
            return False
        if described is None:
            return False
        self._report.say(info.key, "no snapshot in the log names it: taken in")
        self.found.append(described)
        return True

    def _described(self, info: ObjectInfo) -> tuple[Volume, About] | None:
        """A volume as its manifest has it, and what that says; all its files are hashed.

        None for an older state. Raises `IntegrityError` where a file is damaged, gone or not what
        its name says.
        """
        file, files = listed_file(info), self._backing.files
        self._check_whole(file)
        files.bring([file])
        path = files.path(file)
        segments, about = read_manifest(path), read_about(path)
        chain_id = segments[0].name.chain_id
        if self.chain_id not in ("", chain_id):
            raise IntegrityError(f"it is of the chain {chain_id}, not {self.chain_id}")
        volume = volume_of(file, about, segments, [*manifest_receipts([path])])
        if volume.blocks != volume_blocks(info.key):
            raise IntegrityError(f"it holds the blocks {volume.blocks}: it was renamed")
        states = [*self._kept.states(), *(v for v in self.volumes if v.kind == "state")]
        if volume.kind == "state" and volume not in newest_states([volume, *states]):
            return None
        for data in about.data.values():
            self._check_whole(data)
        self.chain_id = chain_id
        if volume.index and damage(self._backing.store, volume.index):
            volume = replace(volume, index=None)
        return volume, about

    def _check_whole(self, file: StoredFile) -> None:
        if problem := damage(self._backing.store, file, self._advance):
            raise IntegrityError(f"{self._backing.store.describe(file.key)} {problem}")


def _length(info: ObjectInfo) -> tuple[int, str]:
    blocks = volume_blocks(info.key) or BlockRange(0, 0)
    return blocks.last - blocks.first, info.key


def _repaired(
    newest: Snapshot, bad: Set[StoredFile], fresh: Sequence[Volume], chain_id: str
) -> Snapshot | None:
    """A snapshot without bad files, with fresh volumes where they are free; None: the same."""
    kept = newest.without(bad)
    history = kept.history()
    for volume in fresh:
        is_free = not any(volume.blocks.overlaps(other.blocks) for other in history)
        if volume.kind == "history" and is_free:
            history.append(volume)
    # Of two states after the same block the last one counts, which is the named one.
    states = [*(volume for volume in fresh if volume.kind == "state"), *kept.states()]
    target = replace(kept, chain_id=kept.chain_id or chain_id)
    target = target.with_volumes([*history, *newest_states(states)])
    return target if target != newest else None


def _begin(
    backing: Backing, base: Snapshot, top: int, search: _Search, target: Snapshot
) -> Snapshot:
    """Write a snapshot where the newest one cannot be read, or there is none.

    Its number is beyond all that volumes were built upon, so that none is later than the log.
    """
    for _, about in search.found if not base.number else ():
        base, top = replace(base, warehouse=about.warehouse), max(top, about.snapshot)
    target = replace(target, captures=target.captures or _captures(backing))
    snapshot = backing.log.create(following(replace(base, number=top), target))
    if snapshot is None:
        raise BusyError(
            f"another process wrote to the log of {backing.store.describe()} meanwhile: run "
            "strata repair again"
        )
    return snapshot


def _captures(backing: Backing) -> StoredFile | None:
    """The sound file of spam captures that was made of the most files; None without one.

    Each was made of all that its older one was; what lacks is loaded again from its source.
    """
    files = [
        StoredFile(info.key, info.size, Path(info.key).stem)
        for info in listed(backing.store, "spam")
    ]
    sound = [file for file in files if not damage(backing.store, file)]
    backing.files.bring(sound)
    return max(
        sound, key=lambda f: len([*capture_rows(backing.files.path(f), "files")]), default=None
    )


def _set_aside(store: Store, info: ObjectInfo) -> str:
    """Move a manifest away that says of blocks what cannot be believed; returns its new key."""
    data = read_as_is(store, info.key)
    sha256 = hashlib.sha256(data).hexdigest()
    key = f"quarantine/{Path(info.key).name.partition('.')[0]}.{sha256}.parquet"
    store.put_if_absent(key, data, content_type=_TYPE, sha256=sha256, immutable=True)
    store.delete(info.key)
    return key


def _make_indexes(backing: Backing, snapshot: Snapshot) -> int:
    """Make index files where volumes have none; returns the number of the newest snapshot."""
    bare = [volume for volume in snapshot.volumes if volume.index is None]
    indexes = {volume.key: _new_index(backing, volume) for volume in bare}

    def change(newest: Snapshot) -> Snapshot | None:
        volumes = [replace(v, index=v.index or indexes.get(v.key)) for v in newest.volumes]
        target = newest.with_volumes(volumes)
        return target if target != newest else None

    return backing.log.commit(change).number


def _new_index(backing: Backing, volume: Volume) -> StoredFile | None:
    """The index file of a volume, made from its tables; None where nothing is looked up in it."""
    with (
        backing.files.hold(volume.data.values()),
        scratch_folder(backing.scratch) as scratch,
        working_connection(scratch, memory_limit=backing.rendering_limit) as con,
    ):
        path = write_index(con, scratch, volume_sources(backing.files, volume))
        if path is None:
            return None
        return store_new(backing, INDEX, volume.blocks, path)


def remove_foreign_logs(backing: Backing) -> Iterator[tuple[str, str]]:
    """Remove the logs that other programs left beside files of DuckDB."""
    for name in ("state", "spam"):
        for log in sorted((backing.files.folder / name).glob("*.duckdb.wal")):
            remove_log(log.with_suffix(""))
            yield f"{name}/{log.name}", f"{FOREIGN_LOG}: the log is removed"
