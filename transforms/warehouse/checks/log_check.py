"""What is wrong with a warehouse besides its volumes: the log, the file of views, strange files."""

from __future__ import annotations

from collections.abc import Iterator

from transforms.objects import ObjectInfo
from transforms.verifying.findings import (
    CHOOSE,
    FIRST_LOAD,
    MADE_AGAIN,
    REPAIR,
    Finding,
    Problem,
    Remedy,
    move_away,
    remove,
    unreadable,
)
from transforms.verifying.verification import Kind, Verification
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.log.log import LOG, is_snapshot_key, snapshot_key
from transforms.warehouse.log.newest_snapshot import NewestSnapshot
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.merge.sweep import (
    ORPHAN_SECONDS,
    Coverage,
    folder_listing,
    is_ours,
    unnamed,
)
from transforms.warehouse.repair.older_log import (
    LogState,
    lacking,
)
from transforms.warehouse.views.catalog_file import OWN_VIEWS, CatalogFile, read_record

_DAY_SECONDS = 24 * 3600.0
VIEWS_MADE_AGAIN = Remedy(('strata sql "select 1"',), f"it makes the file anew; {OWN_VIEWS}")


def log_findings(
    backing: Backing, state: LogState, verification: Verification
) -> Iterator[Finding]:
    """Whether there is a log, whether its newest snapshots are sound, and go with what is known."""
    place, end = backing.store.describe(LOG), state.end
    if not end.top and state.last_seen is None:
        yield nothing(backing, has_volumes=bool(state.infos))
        return
    verification.counts.expect(Kind.DOCUMENTS)
    if end.sound is not None:
        verification.counts.read(Kind.DOCUMENTS)
    for number, problem in end.damaged:
        yield Finding(
            Problem.DAMAGED, backing.store.describe(snapshot_key(number)), problem, REPAIR
        )
    if state.conflict:
        yield Finding(Problem.DAMAGED, place, state.conflict, CHOOSE)
    yield from _seen(backing)


def nothing(backing: Backing, *, has_volumes: bool) -> Finding:
    """That there is no log, on a machine that never saw one."""
    place = backing.store.describe()
    if has_volumes:
        what = "there are volumes and no log that names them"
        return Finding(Problem.MISSING, backing.store.describe(LOG), what, REPAIR)
    what = "there is no warehouse, or it is empty: is this the right place, and is it mounted?"
    return Finding(Problem.NOTHING, place, what, FIRST_LOAD)


def _seen(backing: Backing) -> Iterator[Finding]:
    memory = NewestSnapshot(backing.cache)
    if memory.path.exists() and memory.snapshot() is None:
        what = "what this machine remembers of the log is damaged"
        yield Finding(Problem.DAMAGED, str(memory.path), what, MADE_AGAIN)


def view_findings(backing: Backing) -> Iterator[Finding]:
    """What is wrong with the file that an analyst opens, if there is one.

    That it shows an older snapshot is not: the next command makes it new.
    """
    path = CatalogFile.of(backing).path()
    if not path.exists():
        return
    try:
        if difference := read_record(path).difference(path):
            yield Finding(Problem.DAMAGED, str(path), difference, VIEWS_MADE_AGAIN)
    except OSError as error:
        yield Finding(
            Problem.UNREADABLE, str(path), unreadable(error, str(path)), remove(str(path))
        )


def orphan_findings(backing: Backing, snapshot: Snapshot) -> Iterator[Finding]:
    """Files in the warehouse's folders that have no business there.

    What a killed load left is none at first: a sweep removes it after a week.
    """
    store, now = backing.store, backing.store.now()
    dropped = {file.key for file in snapshot.dropped}
    keys = snapshot.named_keys()
    listing = folder_listing(store)
    coverage = Coverage(backing.catalog(snapshot))
    unknown = {info.key for info in lacking(listing["manifests"], snapshot)}
    runs = {_run_of(key) for key in unknown}  # of their other files nothing else is to be said
    for info in listing[LOG]:
        if not is_snapshot_key(info.key):
            yield _orphan(backing, info, "it is no snapshot of the log")
    for info in unnamed(listing, snapshot):
        age = now - info.modified
        if info.key in dropped or info.key.removesuffix(".wal") in keys:  # found with its file
            continue
        if not is_ours(info.key):
            yield _orphan(backing, info, "no file of a warehouse has such a name")
        elif info.key in unknown:
            if age > _DAY_SECONDS:  # a load may be about to name it
                what = "no snapshot names it, and it has blocks that the log lacks"
                yield Finding(Problem.ORPHAN, store.describe(info.key), what, REPAIR)
        elif age > ORPHAN_SECONDS + _DAY_SECONDS and _run_of(info.key) not in runs:
            yield _old_orphan(backing, info, is_removable=coverage.is_removable(info.key))


def _run_of(key: str) -> str:
    """What the name of a volume's file says of its blocks."""
    return key.rpartition("/")[2].partition(".")[0]


def _old_orphan(backing: Backing, info: ObjectInfo, *, is_removable: bool) -> Finding:
    """What a killed load left; a sweep keeps it as long as no volume has the same blocks."""
    place = backing.store.describe(info.key)
    if is_removable:
        what = "no snapshot names it, and no load has removed it"
        return Finding(Problem.ORPHAN, place, what, Remedy(("strata compact",)))
    what = "no snapshot names it, and no volume has all of its blocks"
    note = "where the source no longer has these blocks, move it away"
    return Finding(Problem.ORPHAN, place, what, Remedy(("strata load", "strata compact"), note))


def _orphan(backing: Backing, info: ObjectInfo, what: str) -> Finding:
    place = backing.store.describe(info.key)
    return Finding(Problem.ORPHAN, place, what, move_away(place))
