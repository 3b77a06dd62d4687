"""A source held against the warehouse: what is to be loaded, what cannot be used."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from transforms.block_range import BlockRange, gaps_between
from transforms.coverage import Coverage, behind
from transforms.errors import StrataError
from transforms.files import new_file
from transforms.objects import ObjectInfo
from transforms.segments.inventory import (
    UNKNOWN_SIZE,
    Inventory,
    LoadedSegments,
    Refusal,
    SegmentFile,
)
from transforms.segments.quarantine import QuarantinedFile
from transforms.segments.source import Source
from transforms.stores.store import object_sha256
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.log.snapshot import Snapshot

_MOUNT = "mount it, or correct STRATA_SOURCE"


@dataclass(frozen=True, slots=True)
class Survey:
    """A source held against the warehouse.

    `pending` are segments that can be loaded now; `refused` all files that cannot be used, by key:
    those that the inventory refuses, those whose very bytes were refused before, and those that
    changed after they were loaded. `loaded_runs` are the runs of loaded blocks, ascending.
    `uncompared` counts loaded files whose version changed and whose bytes nobody compared yet.
    `source_problem` is why the source cannot be the one that was loaded from; mostly empty.
    """

    inventory: Inventory
    pending: tuple[SegmentFile, ...]
    refused: tuple[Refusal, ...]
    loaded_runs: tuple[BlockRange, ...] = ()
    source_problem: str = ""
    uncompared: int = 0

    @property
    def reasons(self) -> dict[str, str]:
        """Why each of them cannot be used, by key."""
        return {refusal.key: refusal.reason for refusal in self.refused}

    @property
    def blocks_behind(self) -> int:
        """How many blocks the source shows and the warehouse lacks, from its first one on.

        Quarantined files show their blocks by their names. Blocks of a gap are shown by nothing.
        """
        return self.behind(self.loaded_runs)

    @property
    def gaps(self) -> tuple[BlockRange, ...]:
        """The blocks that lack between those that are loaded."""
        return tuple(gaps_between(self.loaded_runs))

    def behind(self, present: Coverage) -> int:
        """The same of another place with these blocks: what is loaded is shown to it, too."""
        since = self.loaded_runs[0].first if self.loaded_runs else 0
        return behind((*self.inventory.shown, *self.loaded_runs), present, since)

    def quarantined(self, newest: Snapshot) -> Snapshot:
        """A snapshot with these refusals, and without files that may be tried now."""
        bad = {refusal.info for refusal in self.refused}
        known = {(file.info, file.reason) for file in newest.quarantine}
        refused = {(each.info, each.reason) for each in self.inventory.refused}
        fresh = [QuarantinedFile(*each) for each in refused - known]
        released = [file.key for file in newest.quarantine if file.info not in bad]
        return newest.quarantined(fresh, released)


def survey(
    source: Source,
    contents: LoadedSegments,
    quarantine: Sequence[QuarantinedFile],
    memory_mb: int,
    objects: Sequence[ObjectInfo],
) -> Survey:
    """Hold a source, listed as `objects`, against what is loaded and what was refused before.

    `memory_mb` is what a load may use: a file that was refused for less may be loaded now.
    """
    inventory = source.inventory(contents, objects)
    refusals = {bad.info: bad for bad in quarantine if bad.stands(memory_mb)}
    pending: list[SegmentFile] = []
    refused = [*inventory.refused]
    for file in inventory.fresh:
        if contents.at(file.blocks) == file.name:
            if contents.files[file.info.key][0] not in (file.info.size, UNKNOWN_SIZE):
                refused.append(_changed(file.info))
        elif file.info in refusals:
            refused.append(refusals[file.info])
        else:
            pending.append(file)
    refused.sort(key=lambda refusal: refusal.key)
    was_loaded_from = any(size != UNKNOWN_SIZE for size, _ in contents.files.values())
    is_empty = was_loaded_from and not (inventory.loaded or inventory.fresh)
    problem = f"{source.describe()} contains no segments, and some were loaded from it: {_MOUNT}"
    found = (inventory, tuple(pending), tuple(refused), contents.runs)
    return Survey(*found, source_problem=problem if is_empty else "")


def compare_altered(
    survey: Survey, source: Source, catalog: Catalog, path: Path, most_bytes: float
) -> Survey:
    """Refuse files whose version changed and that are not the loaded bytes (decision 46).

    At most about `most_bytes` are read; `path` keeps hashes on this machine, by place and version.
    """
    if not survey.inventory.altered:
        return survey
    known: dict[str, list[str]] = {}
    with suppress(OSError, ValueError):
        known = json.loads(path.read_bytes())
    loaded = dict[str, str]()
    for rows in catalog.segment_rows():
        columns = (rows[name].to_pylist() for name in ("source_key", "zip_sha256"))
        loaded.update(zip(*columns, strict=True))
    refused, uncompared, size = [*survey.refused], 0, 0
    for info in survey.inventory.altered:
        place = source.describe(info.key)
        if known.get(place, [""])[0] != info.version and size < most_bytes:
            size += info.size
            with suppress(OSError, StrataError):  # it is asked for again at the next look
                known[place] = [info.version, object_sha256(source.reader, info.key)]
        version, sha256 = known.get(place, ["", ""])
        if version != info.version:
            uncompared += 1
        elif sha256 != loaded[info.key]:
            refused.append(_changed(info))
    if size:
        with suppress(OSError), new_file(path, durable=False) as file:
            file.write(json.dumps(known).encode())
    refused.sort(key=lambda refusal: refusal.key)
    return replace(survey, refused=tuple(refused), uncompared=uncompared)


def _changed(info: ObjectInfo) -> Refusal:
    reason = f"{info.key} changed after it was loaded, which stays as it is"
    return Refusal(info, reason)
