"""Proving a warehouse: its log, every file that it names, every column of every table.

Nothing is changed, and nothing that is damaged keeps the rest from being read.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.coverage import union
from transforms.errors import ConfigError
from transforms.objects import ObjectInfo
from transforms.verifying.findings import (
    FIRST_LOAD,
    REPAIR,
    REPAIR_AND_LOAD,
    Finding,
    Problem,
    move_away,
    tally,
)
from transforms.verifying.verification import Kind, Verification
from transforms.warehouse.checks.file_check import file_findings, volume_findings
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.files.unnamed_volumes import unnamed_volumes
from transforms.warehouse.log.log import LOG, snapshot_key
from transforms.warehouse.log.losses import LostRowsError
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.file_names import (
    MANIFESTS,
    MISSING,
    STATE,
    absent_files,
    blocks_of,
    listed,
)
from transforms.warehouse.manifests.manifest import read_segments
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.merge.sweep import FOLDERS, ORPHAN_SECONDS, is_removable


@dataclass(frozen=True, slots=True)
class Holding:
    """What a warehouse holds: in `catalog`, the volumes whose manifests can be read.

    `loaded` are the blocks of all volumes. `due` are those of the catalog that should be published
    by now: about the others, which are young, a run may be.
    """

    catalog: Catalog
    loaded: tuple[BlockRange, ...]
    due: Sequence[Volume]


def warehouse_findings(
    backing: Backing, verification: Verification
) -> Generator[Finding, None, Holding | None]:
    """Yield what is wrong; nothing, if all is well. Errors of the machine pass through.

    Returns what the warehouse holds; None where there is no log that can be read.
    """
    store = backing.store
    try:
        numbers = backing.log.numbers()
    except ConfigError as error:  # there is no such bucket
        yield Finding(Problem.MISSING, store.describe(), str(error), FIRST_LOAD)
        return None
    # Before the log is read: other processes may go on meanwhile.
    listing = listed(store, (*FOLDERS, LOG))
    snapshot, unsound = backing.log.newest_sound()
    place = store.describe(LOG)
    for number, problem in unsound.items():
        yield Finding(Problem.DAMAGED, store.describe(snapshot_key(number)), problem, REPAIR)
    if (lost := backing.log.lost_part(snapshot)) and not unsound:
        yield Finding(Problem.DAMAGED, place, lost, REPAIR)
    elif not snapshot.number and (listing[MANIFESTS] or listing[STATE]):
        what = "there are volumes and no log that names them"
        yield Finding(Problem.MISSING, place, what, REPAIR)
    elif not snapshot.number and not unsound:
        what = "there is no warehouse, or it is empty: is this the right place, and mounted?"
        yield Finding(Problem.MISSING, store.describe(), what, FIRST_LOAD)
    if not snapshot.number:
        return None
    yield from _orphans(backing, snapshot, listing, numbers)
    bad = yield from _files(backing, verification, snapshot)
    sound = (volume for volume in snapshot.volumes if volume.key not in bad)
    catalog = backing.catalog(snapshot.with_volumes(sound))
    loaded, due = union(volume.blocks for volume in snapshot.history), [*catalog.snapshot.history]
    if settle := verification.settle_seconds:
        infos, now = listing[MANIFESTS], store.now()
        old = {info.key for info in infos if now - info.modified >= settle}
        due = [volume for volume in due if volume.key in old]
    return Holding(catalog, loaded, due)


def _orphans(
    backing: Backing,
    snapshot: Snapshot,
    listing: Mapping[str, Sequence[ObjectInfo]],
    numbers: Sequence[int],
) -> Iterator[Finding]:
    """What no snapshot has named for a week (a whole volume: for an hour), and no sweep removes.

    `numbers` are the log's.

    A repair takes in manifests of blocks that the log lacks, and the other files of these blocks.
    """
    store, infos = backing.store, [info for folder in listing.values() for info in folder]
    named = {*snapshot.named_keys(), *snapshot.dropped, *map(snapshot_key, numbers)}
    lacking = {info.key: blocks_of(info.key) for info in snapshot.lacking(listing[MANIFESTS])}
    whole = {volume.key for volume in unnamed_volumes(backing, snapshot, listing[MANIFESTS])}
    held = (volume.blocks for volume in snapshot.history)
    runs = [*union(held), *filter(None, lacking.values())]
    oldest = store.now() - ORPHAN_SECONDS
    for info in infos:
        # What a program left beside a file is found where that is read.
        is_young = info.modified >= oldest and info.key not in whole
        if is_young or info.key.removesuffix(".wal") in named:
            continue
        place = store.describe(info.key)
        if info.key in lacking:
            what = "no snapshot names it, and it has blocks that the log lacks"
            yield Finding(Problem.ORPHAN, place, what, REPAIR)
        elif not is_removable(info.key, runs):
            what = "no snapshot names it, and no sweep removes it"
            yield Finding(Problem.ORPHAN, place, what, move_away(place))


def _files(
    backing: Backing, verification: Verification, snapshot: Snapshot
) -> Generator[Finding, None, set[str]]:
    """Check what a snapshot names.

    Returns the keys of the manifests with which anything is wrong: these are not believed.
    """
    bad = set[str]()
    if snapshot.losses:
        place = backing.store.describe()
        lost = LostRowsError(place, snapshot.losses)
        yield Finding(Problem.MISSING, place, f"it {lost.what}", lost.remedy)
    for volume in snapshot.volumes:
        read = partial(_manifest_problem, backing.files.path(volume.file), volume)
        if findings := file_findings(backing, volume.file, REPAIR_AND_LOAD, read):
            bad.add(volume.key)
            yield from findings
    for refused in snapshot.quarantine:
        if refused.copy:
            yield from file_findings(backing, refused.copy, REPAIR)
    if snapshot.captures:
        yield from file_findings(backing, snapshot.captures, REPAIR_AND_LOAD)
    yield from _volumes(backing, verification, snapshot.volumes, bad)
    return bad


def _manifest_problem(path: Path, volume: Volume) -> str:
    segments = len(read_segments(path))
    is_same = segments == volume.segments
    return "" if is_same else f"it has {segments} segments, where the log says {volume.segments}"


def _volumes(
    backing: Backing, check: Verification, volumes: Sequence[Volume], bad: Container[str]
) -> Iterator[Finding]:
    """Check the files of volumes; of those that a quick check knows, whether they are there.

    `bad` are the keys of manifests with which anything is wrong: their volumes are not proven.
    """
    check.expect(Kind.VOLUMES, len(volumes), sum(volume.size for volume in volumes))
    known = [volume for volume in volumes if volume.key in check.sound]
    files = (file for volume in known for file in volume.row_files)
    absent = absent_files(backing.store, files)
    for file, problem in absent.items():
        kind = Problem.MISSING if problem == MISSING else Problem.DAMAGED
        place = backing.store.describe(file.key)
        yield Finding(kind, place, f"it {problem}", REPAIR_AND_LOAD)
    for volume in volumes:
        is_sound = volume.key not in bad and absent.keys().isdisjoint(volume.row_files)
        if volume.key not in check.sound:
            is_read = is_sound and not check.is_quick
            is_sound &= not (yield from tally(volume_findings(backing, volume, is_read=is_read)))
            check.took(Kind.VOLUMES, volume.size)
        if is_sound:
            check.proven.add(volume.key)
