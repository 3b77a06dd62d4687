"""Repair: the log goes on, or is made again, from the files that are there.

One rule: of the newest snapshot that can be read all that is sound stays, then each sound run of
segments is named that shares no block with these, longer ones first. Manifests of blocks that lack
even then, and damaged ones, are moved to `quarantine/`; nothing is removed but what other programs
wrote.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
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
from transforms.warehouse.load.volume_files import store_new, volume_sources, write_index
from transforms.warehouse.log.addition import with_added
from transforms.warehouse.log.log import snapshot_key
from transforms.warehouse.log.snapshot import Snapshot, following, new_warehouse
from transforms.warehouse.manifests.file_names import (
    INDEX,
    MANIFESTS,
    STATE,
    blocks_of,
    listed,
    named_file,
)
from transforms.warehouse.manifests.manifest import (
    manifest_receipts,
    manifest_segments,
    read_about,
)
from transforms.warehouse.manifests.shapes import Volume, shapes_of
from transforms.warehouse.repair.older_log import lacking

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
    listing = listed(store, (MANIFESTS, STATE))
    sound, unsound = backing.log.newest_sound()
    base = sound or new_warehouse()
    if not (base.number or unsound or any(listing.values())):
        report.say(store.describe(), "there is no log and no volume: is this the right place?")
        return report
    for number, problem in unsound.items():
        report.say(snapshot_key(number), problem)
    bad = _damaged(store, base, report, advance)
    completed, disbelieved = _completed(backing, base.without(bad), listing, report, advance)
    bare = [volume for volume in completed.volumes if volume.index is None]
    indexes = {volume.key: _new_index(backing, volume) for volume in bare}
    change = partial(_repaired, bad=bad, completed=completed, indexes=indexes)
    if sound and not unsound:
        snapshot = backing.log.commit(change)
    else:
        begun = replace(base, warehouse=completed.warehouse)
        snapshot = _begin(backing, begun, max(completed.number, *unsound, 0), change(base))
    for loss in sorted({*snapshot.losses} - {*base.losses}):
        report.say(f"snapshot {snapshot.number}", f"{loss} is lost: run strata load")
    for info in dict.fromkeys((*lacking(listing[MANIFESTS], snapshot), *disbelieved)):
        _set_aside(store, info, report)
    report.snapshot = snapshot.number
    report.findings += _remove_foreign_logs(backing)
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


def _completed(
    backing: Backing,
    kept: Snapshot,
    listing: Mapping[str, Sequence[ObjectInfo]],
    report: RepairReport,
    advance: Advance,
) -> tuple[Snapshot, list[ObjectInfo]]:
    """The sound part of the log with the sound volumes that it does not name.

    Those are runs of segments that share no block with others, longer ones first, and states of
    segments that are there, newer ones first. Beside it, the manifests that are not to be believed.
    """
    completed, disbelieved, named = kept, list[ObjectInfo](), kept.named_keys()
    for info in (
        *sorted(listing[MANIFESTS], key=_length, reverse=True),
        *sorted(listing[STATE], reverse=True),
    ):
        blocks = blocks_of(info.key)
        if blocks is None or info.key in named or not info.key.endswith(".parquet"):
            continue
        is_there = any(blocks.overlaps(volume.blocks) for volume in completed.history())
        if is_there != info.key.startswith(STATE):
            continue
        try:
            grown = _with_volume(backing, completed, info, advance)
        except (IntegrityError, FileNotFoundError) as error:
            report.say(info.key, str(error))
            disbelieved.append(info)
            continue
        if grown != completed:
            report.say(info.key, "no snapshot in the log names it: taken in")
            completed = grown
    return completed, disbelieved


def _length(info: ObjectInfo) -> tuple[int, str]:
    blocks = blocks_of(info.key) or BlockRange(0, 0)
    return blocks.last - blocks.first, info.key


def _with_volume(
    backing: Backing, completed: Snapshot, info: ObjectInfo, advance: Advance
) -> Snapshot:
    """A snapshot with the volume of a manifest, all of whose files are hashed; older states: none.

    It is not older than what the volume was built upon. Raises `IntegrityError` where a file is
    damaged or gone.
    """
    file, files = named_file(info.key, info.size), backing.files

    def check_whole(file: StoredFile) -> None:
        if problem := damage(backing.store, file, advance):
            raise IntegrityError(f"{backing.store.describe(file.key)} {problem}")

    check_whole(file)
    files.bring([file])
    path = files.path(file)
    about, chain_id = read_about(path, file), manifest_segments(path)[0].name.chain_id
    if completed.chain_id not in ("", chain_id):
        raise IntegrityError(f"it is of the chain {chain_id}, not {completed.chain_id}")
    volume = replace(about.volume, shapes=shapes_of(manifest_receipts([path])))
    if volume.index and damage(backing.store, volume.index):
        volume = replace(volume, index=None)
    grown = with_added(completed, chain_id, [volume])
    if grown == completed:
        return completed
    for data in volume.data.values():
        check_whole(data)
    warehouse = completed.warehouse if completed.number else about.warehouse
    return replace(grown, warehouse=warehouse, number=max(completed.number, about.snapshot))


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


def _repaired(
    newest: Snapshot,
    bad: Set[StoredFile],
    completed: Snapshot,
    indexes: Mapping[str, StoredFile | None],
) -> Snapshot:
    """A snapshot without bad files, with what was found where it is free, and with new indexes."""
    chain_id = completed.chain_id or newest.chain_id
    repaired = with_added(newest.without(bad), chain_id, completed.volumes)
    return repaired.with_volumes(
        replace(volume, index=volume.index or indexes.get(volume.key))
        for volume in repaired.volumes
    )


def _begin(backing: Backing, base: Snapshot, number: int, target: Snapshot) -> Snapshot:
    """Write the snapshot after `number` where the newest cannot be read, or there is none.

    That is beyond all that volumes were built upon, so that none is later than the log.
    """
    target = replace(target, captures=target.captures or _captures(backing))
    base = replace(base, number=number)
    snapshot = backing.log.create(following(base, target, backing.store.now()))
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
    files = [named_file(info.key, info.size) for info in listed(backing.store, ["spam"])["spam"]]
    sound = [file for file in files if not damage(backing.store, file)]
    backing.files.bring(sound)
    return max(
        sound, key=lambda f: len([*capture_rows(backing.files.path(f), "files")]), default=None
    )


def _set_aside(store: Store, info: ObjectInfo, report: RepairReport) -> None:
    """Move a manifest away that says of blocks what cannot be believed."""
    with suppress(FileNotFoundError):  # another process swept it
        data = read_as_is(store, info.key)
        sha256 = hashlib.sha256(data).hexdigest()
        key = f"quarantine/{Path(info.key).name.partition('.')[0]}.{sha256}.parquet"
        store.put_if_absent(key, data, content_type=_TYPE, sha256=sha256, immutable=True)
        store.delete(info.key)
        report.say(info.key, f"moved to {key}: run strata load, which loads again what is lacking")


def _remove_foreign_logs(backing: Backing) -> Iterator[tuple[str, str]]:
    """Remove the logs that other programs left beside files of DuckDB."""
    for name in (STATE, "spam"):
        for log in sorted((backing.files.folder / name).glob("*.duckdb.wal")):
            remove_log(log.with_suffix(""))
            yield f"{name}/{log.name}", f"{FOREIGN_LOG}: the log is removed"
