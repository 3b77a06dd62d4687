"""Proving a warehouse: its log, every file that it names, every column of every table.

Nothing is changed, and nothing that is damaged keeps the rest from being read.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.coverage import union
from transforms.errors import ConfigError
from transforms.verifying.findings import (
    FIRST_LOAD,
    REPAIR,
    REPAIR_AND_LOAD,
    Finding,
    Problem,
    move_away,
)
from transforms.verifying.verification import Kind, Verification
from transforms.warehouse.checks.file_check import file_findings, volume_findings
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.files.local_files import MISSING
from transforms.warehouse.files.lost_files import absent_files
from transforms.warehouse.log.log import LOG, is_snapshot_key, snapshot_key
from transforms.warehouse.log.losses import LostRowsError
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.file_names import MANIFESTS, STATE, listed
from transforms.warehouse.manifests.manifest import read_segments
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.merge.sweep import (
    ORPHAN_SECONDS,
    folder_listing,
    is_removable,
    unnamed,
    whole_runs,
)
from transforms.warehouse.repair.older_log import lacking, later_volume


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
        backing.log.numbers()
    except ConfigError as error:  # there is no such bucket
        yield Finding(Problem.MISSING, store.describe(), str(error), FIRST_LOAD)
        return None
    # Before the log: other processes may go on meanwhile.
    listing = listed(store, (MANIFESTS, STATE))
    snapshot, unsound = backing.log.newest_sound()
    place = store.describe(LOG)
    for number, problem in unsound.items():
        yield Finding(Problem.DAMAGED, store.describe(snapshot_key(number)), problem, REPAIR)
    if later := later_volume(backing, snapshot, listing[MANIFESTS]):
        yield Finding(Problem.DAMAGED, place, later, REPAIR)
    elif snapshot is None and any(listing.values()):
        what = "there are volumes and no log that names them"
        yield Finding(Problem.MISSING, place, what, REPAIR)
    elif snapshot is None and not unsound:
        what = "there is no warehouse, or it is empty: is this the right place, and mounted?"
        yield Finding(Problem.MISSING, store.describe(), what, FIRST_LOAD)
    if snapshot is None:
        return None
    bad = yield from _files(backing, verification, snapshot)
    sound = (volume for volume in snapshot.volumes if volume.key not in bad)
    catalog = backing.catalog(snapshot).of_volumes(sound)
    loaded, due = union(volume.blocks for volume in snapshot.history()), catalog.history()
    if settle := verification.settle_seconds:
        now, infos = store.now(), listing[MANIFESTS]
        old = {info.key for info in infos if now - info.modified >= settle}
        due = [volume for volume in due if volume.key in old]
    return Holding(catalog, loaded, due)


def _files(
    backing: Backing, verification: Verification, snapshot: Snapshot
) -> Generator[Finding, None, set[str]]:
    """Check what a snapshot names and what nothing names.

    Returns the keys of the manifests with which anything is wrong: these are not believed.
    """
    bad = set[str]()
    if snapshot.losses:
        place = backing.store.describe()
        lost = LostRowsError(place, snapshot.losses)
        yield Finding(Problem.MISSING, place, f"it {lost.what}", lost.remedy)
    for volume in snapshot.volumes:
        read = partial(_manifest_problem, backing.files.path(volume.file))
        if findings := file_findings(backing, volume.file, REPAIR_AND_LOAD, read):
            bad.add(volume.key)
            yield from findings
    for refused in snapshot.quarantine:
        if refused.copy:
            yield from file_findings(backing, refused.copy, REPAIR)
    if snapshot.captures:
        yield from file_findings(backing, snapshot.captures, REPAIR_AND_LOAD)
    yield from _orphans(backing, snapshot)
    yield from _volumes(backing, verification, snapshot.volumes, bad)
    return bad


def _manifest_problem(path: Path) -> str:
    read_segments(path)
    return ""


def _volumes(
    backing: Backing, check: Verification, volumes: Sequence[Volume], bad: Container[str]
) -> Iterator[Finding]:
    """Check the files of volumes; of those that a quick check knows, whether they are there."""
    check.expect(Kind.VOLUMES, len(volumes), sum(volume.size for volume in volumes))
    known = [volume for volume in volumes if check.is_known(volume.key)]
    files = (file for volume in known for file in volume.row_files)
    for file, problem in absent_files(backing.store, files).items():
        kind = Problem.MISSING if problem == MISSING else Problem.DAMAGED
        place = backing.store.describe(file.key)
        yield Finding(kind, place, f"it {problem}", REPAIR_AND_LOAD)
    for volume in volumes:
        if volume.key not in check.sound:
            is_read = volume.key not in bad and not check.is_quick
            yield from volume_findings(backing, volume, is_read=is_read)
            check.took(Kind.VOLUMES, volume.size)


def _orphans(backing: Backing, snapshot: Snapshot) -> Iterator[Finding]:
    """Files in the warehouse's folders that nothing names, and no sweep removes.

    Of a killed load these are its manifests, which repair takes in with their files, and what it
    left of blocks that no volume has.
    """
    store, now = backing.store, backing.store.now()
    known = snapshot.dropped.keys() | snapshot.named_keys()
    listing = folder_listing(store)
    whole = whole_runs(snapshot, listing)
    unknown = {info.key for info in lacking(listing[MANIFESTS], snapshot)}
    runs = {_run_of(key) for key in unknown}
    strange = [info for info in listing[LOG] if not is_snapshot_key(info.key)]
    for info in (*strange, *unnamed(listing, snapshot)):
        is_known = info.key.removesuffix(".wal") in known or is_removable(info.key, whole)
        if is_known or now - info.modified <= ORPHAN_SECONDS:
            continue
        place = store.describe(info.key)
        if info.key in unknown:
            what = "no snapshot names it, and it has blocks that the log lacks"
            yield Finding(Problem.ORPHAN, place, what, REPAIR)
        elif _run_of(info.key) not in runs:
            what = "no snapshot names it, and no sweep removes it"
            yield Finding(Problem.ORPHAN, place, what, move_away(place))


def _run_of(key: str) -> str:
    """What the name of a volume's file says of its blocks."""
    return key.rpartition("/")[2].partition(".")[0]
