"""Proving a warehouse: its log, every file that it names, every column of every table.

Nothing is changed, and nothing that is damaged keeps the rest from being read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from transforms.block_range import BlockRange
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
from transforms.warehouse.checks.file_check import damage_finding, file_findings
from transforms.warehouse.checks.volume_check import VolumeCheck
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.files.lost_files import absent_files
from transforms.warehouse.log.log import LOG, is_snapshot_key, snapshot_key
from transforms.warehouse.log.losses import LostRowsError
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.file_names import MANIFESTS, STATE, listed
from transforms.warehouse.manifests.manifest import read_manifest
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.merge.sweep import (
    ORPHAN_SECONDS,
    folder_listing,
    is_removable,
    unnamed,
    whole_runs,
)
from transforms.warehouse.repair.older_log import lacking, later_volume


@dataclass
class Holding:
    """What a warehouse holds as far as its manifests can be read; no catalog without any.

    `unread` are the blocks of volumes whose manifest cannot be read, `unsettled` those of volumes
    that are so young that a run may be about to publish them.
    """

    chain_id: str = ""
    catalog: Catalog | None = None
    unread: list[BlockRange] = field(default_factory=list)
    unsettled: list[BlockRange] = field(default_factory=list)

    @cached_property
    def segments(self) -> Collection[BlockRange]:
        """The loaded segments."""
        return frozenset(self.catalog.blocks if self.catalog else ())

    @property
    def volumes(self) -> Sequence[Volume]:
        """The volumes of history whose manifests can be read."""
        return self.catalog.history() if self.catalog else ()

    def receipts(self, blocks: BlockRange) -> Iterator[Receipt]:
        """The receipts of loaded segments that begin in these blocks."""
        return self.catalog.receipts(blocks) if self.catalog else iter(())

    def is_loaded(self, blocks: BlockRange) -> bool:
        """Whether these blocks are a loaded segment, or may be one."""
        return blocks in self.segments or any(map(blocks.overlaps, self.unread))

    def is_due(self, blocks: BlockRange) -> bool:
        """Whether what is loaded should be published by now."""
        return not any(map(blocks.overlaps, self.unsettled))


class WarehouseCheck:
    """One check of a warehouse. `holding` is what it holds, once `findings` has come to its end."""

    def __init__(self, backing: Backing, verification: Verification, holding: Holding) -> None:
        self._backing = backing
        self._store = backing.store
        self._verification = verification
        self._begun = 0.0
        self.holding = holding

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong; nothing, if all is well. Errors of the machine pass through."""
        try:
            self._backing.log.numbers()
        except ConfigError as error:  # there is no such bucket
            yield Finding(Problem.MISSING, self._store.describe(), str(error), FIRST_LOAD)
            return
        # Before the log: other processes may go on meanwhile.
        listing = listed(self._store, (MANIFESTS, STATE))
        snapshot, unsound = self._backing.log.newest_sound()
        place = self._store.describe(LOG)
        for number, problem in unsound.items():
            where = self._store.describe(snapshot_key(number))
            yield Finding(Problem.DAMAGED, where, problem, REPAIR)
        if later := later_volume(self._backing, snapshot, listing[MANIFESTS]):
            yield Finding(Problem.DAMAGED, place, later, REPAIR)
        elif snapshot is None and any(listing.values()):
            what = "there are volumes and no log that names them"
            yield Finding(Problem.MISSING, place, what, REPAIR)
        elif snapshot is None and not unsound:
            what = "there is no warehouse, or it is empty: is this the right place, and mounted?"
            yield Finding(Problem.MISSING, self._store.describe(), what, FIRST_LOAD)
        if snapshot is not None:
            yield from self._files(snapshot)

    def _files(self, snapshot: Snapshot) -> Iterator[Finding]:
        self.holding.chain_id = snapshot.chain_id
        if snapshot.losses:
            place = self._store.describe()
            lost = LostRowsError(place, snapshot.losses)
            yield Finding(Problem.MISSING, place, f"it {lost.what}", lost.remedy)
        self._begun = self._store.now()
        sound = list[Volume]()
        for volume in snapshot.volumes:
            yield from self._manifest(volume, sound)
        if sound:
            self.holding.catalog = self._backing.catalog(snapshot).of_volumes(sound)
        for refused in snapshot.quarantine:
            if refused.copy:
                yield from file_findings(self._backing, refused.copy, REPAIR)
        if snapshot.captures:
            yield from file_findings(self._backing, snapshot.captures, REPAIR_AND_LOAD)
        yield from _orphans(self._backing, snapshot)
        yield from self._volumes(snapshot.volumes, {volume.key for volume in sound})

    def _manifest(self, volume: Volume, sound: list[Volume]) -> Iterator[Finding]:
        """Read a manifest; only if nothing is wrong with it, it is believed."""
        if settle := self._verification.settle_seconds:
            info = self._store.head(volume.key)
            if info is not None and self._begun - info.modified < settle:
                self.holding.unsettled.append(volume.blocks)
        path = self._backing.files.path(volume.file)

        def read() -> str:
            return "" if read_manifest(path) else "it has no segments"

        findings = [*file_findings(self._backing, volume.file, REPAIR_AND_LOAD, read)]
        if not findings:
            sound.append(volume)
        elif volume.kind == "history":
            self.holding.unread.append(volume.blocks)
        yield from findings

    def _volumes(self, volumes: Sequence[Volume], sound: Collection[str]) -> Iterator[Finding]:
        check, store = self._verification, self._store
        check.expect(Kind.VOLUMES, len(volumes), sum(volume.size for volume in volumes))
        # What a quick check knows is there, at least, with all its bytes.
        known = [volume for volume in volumes if check.is_known(volume.key)]
        files = (file for volume in known for file in volume.row_files)
        for file, problem in absent_files(store, files).items():
            yield damage_finding(store.describe(file.key), problem, REPAIR_AND_LOAD)
        for volume in volumes:
            if volume.key not in check.sound:
                is_read = volume.key in sound and not check.is_quick
                yield from VolumeCheck(self._backing, volume).findings(is_read=is_read)
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
