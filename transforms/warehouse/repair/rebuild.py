"""Rebuilding a document from the volumes alone, where the log is gone."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from transforms.duck import read_only_connection
from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo, StoredFile
from transforms.stores.store import object_sha256
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.log.addition import newest_states
from transforms.warehouse.log.document import Document, following
from transforms.warehouse.manifests.manifest_rows import Origin
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.repair.older_log import listed, listed_volumes
from transforms.warehouse.repair.volume_choice import best_cover, check_agreement
from transforms.warehouse.repair.volume_description import (
    Advance,
    FoundVolume,
    describe_volume,
    logged_progress,
    with_index,
)

_log = logging.getLogger(__name__)

_MARGIN = 1000
_HASH = re.compile("[0-9a-f]{64}")


def beyond(generations: Iterable[int]) -> int:
    """A generation that nobody can have seen, where these are known to have been there.

    Machines refuse a log that is older than what they saw, and a volume says only upon which
    generation it was built: commits that followed it are counted by nobody.
    """
    return max(generations, default=0) + _MARGIN


def rebuild(backing: Backing, start: Document, at_least: int = 0) -> Document | None:
    """Make a document from the volumes, and from `start` what is no volume; None without volumes.

    Its generation is above `at_least`. None also where another process was faster. Raises
    `IntegrityError` where volumes contradict each other.
    """
    store = backing.store
    infos = [info for folder in ("manifests", "state") for info in listed_volumes(store, folder)]
    if not infos or (not at_least and backing.log.numbers()):
        return None  # or a load has just begun: its first document is there before its volumes
    place = store.describe()
    _log.warning("%s has volumes and no log: it is rebuilt from %d files", place, len(infos))
    total = sum(info.size for info in infos)
    entries = _sound(backing, infos, logged_progress("rebuilding", total))
    check_agreement(entries, place)
    volumes = [indexed(backing, volume) for volume in chosen_volumes([], entries)]
    if not volumes:
        return None
    origins = [entry.origin for entry in entries]
    number = beyond([at_least, *(origin.generation for origin in origins)])
    base = replace(start, warehouse=_warehouse(origins, start, place), generation=number - 1)
    target = replace(
        base, chain_id=entries[0].chain_id, captures=start.captures or newest_captures(backing)
    )
    document = following(base, "", target.with_volumes(volumes), ())
    created = backing.log.create(document)
    if created is not None:
        _log.warning(
            "%s: generation %d names %d volumes; files that were refused are tried again",
            *(place, document.generation, len(volumes)),
        )
    return created


def indexed(backing: Backing, volume: Volume) -> Volume:
    """A volume with its index file, which is made where it lacks one."""
    return with_index(backing, volume) if volume.index is None else volume


def chosen_volumes(named_volumes: Sequence[Volume], entries: Sequence[FoundVolume]) -> list[Volume]:
    """The volumes of the next document: of the named ones and those that were found."""
    volumes = [*named_volumes, *(item.volume for item in entries)]
    keys = {volume.key for volume in named_volumes}
    history = best_cover((item for item in volumes if item.kind == "history"), keys)
    states = [
        state
        for state in volumes
        if state.kind == "state"
        and (state.key in keys or any(item.blocks.overlaps(state.blocks) for item in history))
    ]
    by_origin = {item.volume.key: item.origin.generation for item in entries}
    states.sort(key=lambda state: (state.key in keys, by_origin.get(state.key, 0)))
    return [*history, *newest_states(states)]


def _sound(backing: Backing, infos: Iterable[ObjectInfo], advance: Advance) -> list[FoundVolume]:
    entries = []
    for info in infos:
        try:
            entries.append(describe_volume(backing, info, advance))
        except (FileNotFoundError, IntegrityError) as error:
            _log.warning("left out: %s", error)
    return entries


def _warehouse(origins: Collection[Origin], start: Document, place: str) -> str:
    warehouses = {origin.warehouse for origin in origins}
    if len(warehouses) > 1:
        _log.warning("%s has volumes that were made for several warehouses", place)
    return warehouses.pop() if len(warehouses) == 1 else start.warehouse


def newest_captures(backing: Backing) -> StoredFile | None:
    """The sound file of spam captures that was made of the most files; None without one.

    Each was made of all that its older one was; what lacks is loaded again from its source.
    """
    best: tuple[int, StoredFile] | None = None
    for info in listed(backing.store, "spam"):
        sha256 = Path(info.key).stem
        if (
            not _HASH.fullmatch(sha256)
            or object_sha256(backing.store, info.key, _ignored) != sha256
        ):
            continue
        file = StoredFile(info.key, info.size, sha256)
        backing.files.bring([file])
        with read_only_connection(backing.files.path(file), threads=1) as con:
            (count,) = con.execute("select count(*) from files").fetchall()[0]
        if best is None or count > best[0]:
            best = count, file
    return best[1] if best else None


def _ignored(_: int) -> None:
    """Captures are small."""
