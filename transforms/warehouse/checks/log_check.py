"""What is wrong with a warehouse besides its volumes: the log, strange files."""

from __future__ import annotations

from collections.abc import Iterator

from transforms.verifying.findings import (
    FIRST_LOAD,
    REPAIR,
    Finding,
    Problem,
    move_away,
)
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.log.log import LOG, is_snapshot_key, snapshot_key
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.merge.sweep import (
    ORPHAN_SECONDS,
    Coverage,
    folder_listing,
    unnamed,
)
from transforms.warehouse.repair.older_log import LogState, lacking

_DAY_SECONDS = 24 * 3600.0


def log_findings(backing: Backing, state: LogState) -> Iterator[Finding]:
    """Whether there is a log, whether its newest snapshots are sound, and go with what is known."""
    place, end = backing.store.describe(LOG), state.end
    if not end.top and state.last_seen is None:
        yield nothing(backing, has_volumes=bool(state.infos))
        return
    for number, problem in end.damaged:
        where = backing.store.describe(snapshot_key(number))
        yield Finding(Problem.DAMAGED, where, problem, REPAIR)
    if state.conflict:
        yield Finding(Problem.DAMAGED, place, state.conflict, REPAIR)


def nothing(backing: Backing, *, has_volumes: bool) -> Finding:
    """That there is no log, on a machine that never saw one."""
    if has_volumes:
        what = "there are volumes and no log that names them"
        return Finding(Problem.MISSING, backing.store.describe(LOG), what, REPAIR)
    what = "there is no warehouse, or it is empty: is this the right place, and is it mounted?"
    return Finding(Problem.MISSING, backing.store.describe(), what, FIRST_LOAD)


def orphan_findings(backing: Backing, snapshot: Snapshot) -> Iterator[Finding]:
    """Files in the warehouse's folders that nothing names, and no sweep removes.

    Of a killed load these are its manifests, which repair takes in, and what it left of blocks that
    no volume has.
    """
    store, now = backing.store, backing.store.now()
    known = {file.key for file in snapshot.dropped} | snapshot.named_keys()
    listing = folder_listing(store)
    coverage = Coverage(snapshot, listing)
    unknown = {info.key for info in lacking(listing["manifests"], snapshot)}
    runs = {_run_of(key) for key in unknown}  # of their other files nothing else is to be said
    strange = [info for info in listing[LOG] if not is_snapshot_key(info.key)]
    for info in (*strange, *unnamed(listing, snapshot)):
        age, place = now - info.modified, store.describe(info.key)
        if info.key in unknown and age > _DAY_SECONDS:  # a load may be about to name it
            what = "no snapshot names it, and it has blocks that the log lacks"
            yield Finding(Problem.ORPHAN, place, what, REPAIR)
        elif info.key.removesuffix(".wal") in known or _run_of(info.key) in runs:
            continue
        elif age > ORPHAN_SECONDS and not coverage.is_removable(info.key):
            what = "no snapshot names it, and no sweep removes it"
            yield Finding(Problem.ORPHAN, place, what, move_away(place))


def _run_of(key: str) -> str:
    """What the name of a volume's file says of its blocks."""
    return key.rpartition("/")[2].partition(".")[0]
