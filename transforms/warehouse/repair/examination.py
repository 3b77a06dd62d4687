"""Holding what a snapshot names against what is there, and finding volumes for what lacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from transforms.errors import IntegrityError
from transforms.lookups.index_file import SUFFIX
from transforms.objects import ObjectInfo, StoredFile
from transforms.stores.store import object_sha256
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.lost_files import MISSING, absent_files
from transforms.warehouse.load.volume_storage import INDEX
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.repair.older_log import lacking
from transforms.warehouse.repair.volume_choice import check_agreement
from transforms.warehouse.repair.volume_description import (
    Advance,
    FoundVolume,
    describe_volume,
    listed,
    listed_volumes,
    volume_blocks,
)


@dataclass(frozen=True, slots=True)
class RepairFinding:
    """A file (or the log) with what is wrong with it, and what is done about it."""

    what: str
    problem: str
    remedy: str


class Examination:
    """Looks at the files of a warehouse; each is hashed once, however often it is asked about."""

    def __init__(self, backing: Backing, advance: Advance, *, quick: bool) -> None:
        self._backing = backing
        self._advance = advance
        self._quick = quick
        self._problems: dict[StoredFile, str] = {}
        self._described: dict[str, FoundVolume | str] = {}

    def kept(self, snapshot: Snapshot, findings: list[RepairFinding]) -> Snapshot:
        """The snapshot without what is not there or damaged; volumes then lack their index file."""
        self._examine(snapshot)

        def is_bad(file: StoredFile | None, remedy: str) -> bool:
            problem = file and self._problems[file]
            if file and problem:
                findings.append(RepairFinding(file.key, problem, remedy))
            return bool(problem)

        volumes = []
        for volume in snapshot.volumes:
            remedy = "no longer named: load its segments again, unless others hold them"
            bad = [file for file in volume.row_files if is_bad(file, remedy)]
            if not bad:
                is_lost = is_bad(volume.index, "made again from its tables")
                volumes.append(replace(volume, index=None) if is_lost else volume)
        captures = snapshot.captures
        if is_bad(captures, "no longer named: load the spam captures again"):
            captures = None
        remedy = "no longer named: the refused file is tried again"
        refused = [
            replace(file, copy=None) if is_bad(file.copy, remedy) else file
            for file in snapshot.quarantine
        ]
        changed = replace(snapshot, captures=captures, quarantine=tuple(refused))
        return changed.with_volumes(volumes)

    def takeable(
        self, snapshot: Snapshot, remainder: Snapshot, findings: list[RepairFinding]
    ) -> list[FoundVolume]:
        """Sound volumes that neither names, with blocks that `remainder` lacks, agreeing with it.

        Raises `IntegrityError` where they contradict each other.
        """
        keys = snapshot.named_keys()
        infos = list(lacking(listed(self._backing.store, "manifests"), keys, remainder.history()))
        infos += self._newer_states(snapshot, remainder)
        segments = self._backing.catalog(remainder).segments
        entries = []
        for info in infos:
            entry = self._description(info)
            reason = entry if isinstance(entry, str) else _disagreement(entry, remainder)
            if isinstance(entry, FoundVolume):
                for blocks, sha256 in entry.segments.items():
                    if blocks in segments and segments[blocks].sha256 != sha256:
                        reason = f"its segment {blocks} was loaded from another file"
            if isinstance(entry, str) or reason:
                remedy = "left where it is, not named: load its segments"
                findings.append(RepairFinding(info.key, reason, remedy))
            else:
                entries.append(entry)
        check_agreement(entries, self._backing.store.describe())
        return entries

    def _examine(self, snapshot: Snapshot) -> None:
        files = [file for file in snapshot.files() if file not in self._problems]
        absent = absent_files(self._backing.store, files)
        for file in files:
            is_absent = file in absent
            self._problems[file] = f"it {absent[file]}" if is_absent else self._problem(file)

    def _problem(self, file: StoredFile) -> str:
        """What is wrong with a file that is there, with all its bytes."""
        if file.key.startswith(f"{INDEX}/") and not file.key.endswith(SUFFIX):
            return "it is an index file of an earlier release"
        if self._quick:
            return ""
        try:
            digest = object_sha256(self._backing.store, file.key, self._advance)
        except FileNotFoundError:
            return f"it {MISSING}"
        same = digest == file.sha256
        return "" if same else f"it is damaged: it hashes to {digest}, not {file.sha256}"

    def _newer_states(self, snapshot: Snapshot, remainder: Snapshot) -> Iterator[ObjectInfo]:
        """States that are not named, later than the named ones, or all where one of those lacks."""
        states = remainder.states()
        keys = snapshot.named_keys()
        for info in listed_volumes(self._backing.store, "state"):
            blocks = volume_blocks(info.key)
            assert blocks is not None
            later = all(state.blocks < blocks for state in states)
            if info.key not in keys and (later or len(states) < len(snapshot.states())):
                yield info

    def _description(self, info: ObjectInfo) -> FoundVolume | str:
        if info.key not in self._described:
            try:
                described = describe_volume(self._backing, info, self._advance)
                self._described[info.key] = described
            except (IntegrityError, FileNotFoundError) as error:
                self._described[info.key] = str(error)
        return self._described[info.key]


def _disagreement(entry: FoundVolume, remainder: Snapshot) -> str:
    """Why a volume cannot stand beside, or instead of, those that are named; empty if it can."""
    if remainder.chain_id not in ("", entry.chain_id):
        return f"it is of the chain {entry.chain_id}, the warehouse of {remainder.chain_id}"
    blocks = entry.volume.blocks
    if entry.volume.kind == "state":
        return ""
    for volume in remainder.history():
        if volume.blocks.overlaps(blocks) and not blocks.holds(volume.blocks):
            return f"{volume.key}, which is named, has only a part of its blocks"
    return ""
