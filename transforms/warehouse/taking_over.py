"""The first document of a warehouse that has volumes already, and none.

An earlier release left them with catalogs of its own, or their log was lost. Nothing is loaded
again, and no file is copied or renamed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import duckdb

from transforms.errors import IntegrityError
from transforms.warehouse.backing import Backing
from transforms.warehouse.choosing import check_agreement
from transforms.warehouse.describing import (
    FoundVolume,
    describe_volume,
    logged_progress,
    named_hash,
    with_record,
)
from transforms.warehouse.document import following, new_warehouse
from transforms.warehouse.earlier_release import EarlierRelease
from transforms.warehouse.older_log import listed_volumes
from transforms.warehouse.rebuilding import rebuild

_log = logging.getLogger(__name__)


def take_over(backing: Backing) -> None:
    """Write the first document for volumes that are there without one; nothing without them.

    May be killed and run again, and by several processes at once: one of them writes the document,
    and all of them the same records. Raises `IntegrityError` where the volumes contradict each
    other.
    """
    earlier = earlier_release(backing)
    if earlier is None or not earlier.is_there():
        rebuild(backing, new_warehouse())
        return
    try:
        _take_over(backing, earlier)
    except (FileNotFoundError, duckdb.Error):
        if not backing.log.numbers():  # otherwise another process was faster, and cleaned up
            raise
    if backing.log.numbers():
        earlier.remove(backing.cache)


def remove_leftovers(backing: Backing) -> None:
    """Remove what an earlier release left, where that was not finished; a document is there.

    Who may only read the folder goes on without.
    """
    earlier = earlier_release(backing)
    if earlier is not None:
        try:
            earlier.remove(backing.cache)
        except OSError as error:
            _log.info("files of an earlier release stay: %s", error)


def earlier_release(backing: Backing) -> EarlierRelease | None:
    """The files of the earlier release, if the store can have any."""
    folder = backing.store.path("log")  # the earlier release knew no buckets
    return EarlierRelease(folder.parent) if folder else None


def _take_over(backing: Backing, earlier: EarlierRelease) -> None:
    start = replace(
        new_warehouse(),
        captures=earlier.captures(),
        quarantine=tuple(earlier.quarantine()),
    )
    place = backing.store.describe()
    named = _named(earlier, place)
    newer = any(named_hash(info.key) for info in listed_volumes(backing.store, "volumes"))
    if named is None or newer:  # by this release: its log is lost, and the catalog is outdated
        if rebuild(backing, start) is None and not backing.log.numbers():
            backing.log.create(following(start, "", start, ()))
        return
    _log.warning("%s is of an earlier release: its %d volumes are taken over", place, len(named))
    found = _described(backing, named)
    check_agreement(found, place)
    volumes = [
        with_record(backing, one.volume) if one.volume.kind == "history" else one.volume
        for one in found
    ]
    chain_id = found[0].chain_id if found else ""
    document = replace(start, chain_id=chain_id).with_volumes(volumes)
    if backing.log.create(following(document, "", document, ())) is not None:
        _log.warning("%s: %d volumes are in the log now", place, len(volumes))


def _named(earlier: EarlierRelease, place: str) -> list[str] | None:
    """The volumes that the newest catalog names; None where it cannot be read."""
    catalog = earlier.catalog()
    if catalog is None:
        return []
    try:
        return earlier.volumes(catalog)
    except duckdb.Error as error:
        if not catalog.exists():
            raise
        reason = str(error).splitlines()[0]
        _log.warning("%s in %s cannot be read: %s", catalog, place, reason)
        return None


def _described(backing: Backing, named: Sequence[str]) -> list[FoundVolume]:
    there = {key: backing.store.head(key) for key in named}
    total = sum(info.size for info in there.values() if info)
    advance = logged_progress("taking over", total)
    found = []
    for key, info in there.items():
        if info is None:
            place = backing.store.describe(key)
            _log.warning("%s is missing: its segments count as not loaded", place)
            continue
        try:
            found.append(describe_volume(backing, info, advance))
        except IntegrityError as error:
            _log.warning("left out, its segments count as not loaded: %s", error)
    return found
