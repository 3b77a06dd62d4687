"""Proving a warehouse: its log, every file that it names, every column of every table.

Nothing is changed, and nothing that is damaged keeps the rest from being read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter

from transforms.block_range import BlockRange
from transforms.errors import ConfigError, IntegrityError
from transforms.verifying.findings import (
    REPAIR,
    REPAIR_AND_LOAD,
    Finding,
    Problem,
)
from transforms.verifying.verification import Kind, Verification
from transforms.warehouse.checks.file_check import damage_finding, file_findings
from transforms.warehouse.checks.log_check import (
    log_findings,
    nothing,
    orphan_findings,
)
from transforms.warehouse.checks.volume_check import VolumeCheck
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.files.lost_files import absent_files
from transforms.warehouse.log.losses import LostRowsError
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.manifest import manifest_receipts, read_manifest
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.repair.older_log import read_state


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
        self._verification = verification
        self.holding = holding
        self._sound = set[str]()  # the keys of the manifests that can be believed

    @cached_property
    def _begun(self) -> float:
        return self._backing.store.now()

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong; nothing, if all is well. Errors of the machine pass through."""
        try:
            self._backing.log.numbers()
        except ConfigError:  # there is no such bucket
            yield nothing(self._backing, has_volumes=False)
            return
        state = read_state(self._backing)
        snapshot = state.end.sound
        yield from log_findings(self._backing, state)
        if snapshot is None:
            return
        self.holding.chain_id = snapshot.chain_id
        if snapshot.losses:
            place = self._backing.store.describe()
            lost = LostRowsError(place, snapshot.losses)
            yield Finding(Problem.MISSING, place, f"it {lost.what}", lost.remedy)
        for volume in snapshot.volumes:
            yield from self._manifest(volume)
        if self._sound:
            volumes = [volume for volume in snapshot.volumes if volume.key in self._sound]
            self.holding.catalog = self._backing.catalog(snapshot).of_volumes(volumes)
        for refused in snapshot.quarantine:
            if refused.copy:
                yield from file_findings(self._backing, refused.copy, REPAIR)
        if snapshot.captures:
            yield from file_findings(self._backing, snapshot.captures, REPAIR_AND_LOAD)
        yield from orphan_findings(self._backing, snapshot)
        yield from self._volumes(snapshot)

    def _manifest(self, volume: Volume) -> Iterator[Finding]:
        """Hash a manifest, and believe it only then."""
        if settle := self._verification.settle_seconds:
            info = self._backing.store.head(volume.key)
            if info is not None and self._begun - info.modified < settle:
                self.holding.unsettled.append(volume.blocks)
        findings = list(file_findings(self._backing, volume.file, REPAIR_AND_LOAD))
        if not findings:
            self._backing.files.bring([volume.file])
            try:
                read_manifest(self._backing.files.path(volume.file))
                self._sound.add(volume.key)
                return
            except IntegrityError as error:
                place = self._backing.store.describe(volume.key)
                findings.append(Finding(Problem.DAMAGED, place, str(error), REPAIR_AND_LOAD))
        if volume.kind == "history":
            self.holding.unread.append(volume.blocks)
        yield from findings

    def _volumes(self, snapshot: Snapshot) -> Iterator[Finding]:
        check, store = self._verification, self._backing.store
        for volume in snapshot.volumes:
            check.expect(Kind.VOLUMES, 1, volume.size)
        # What a quick check knows is there, at least, with all its bytes.
        known = [volume for volume in snapshot.volumes if check.is_known(volume.key)]
        files = (file for volume in known for file in volume.row_files)
        for file, problem in absent_files(store, files).items():
            yield damage_finding(store.describe(file.key), problem, REPAIR_AND_LOAD)
        for volume in snapshot.volumes:
            if volume.key in check.sound:
                continue
            receipts = None
            if volume.key in self._sound and not check.is_quick:
                path = self._backing.files.path(volume.file)
                receipts = sorted(manifest_receipts([path]), key=attrgetter("table", "blocks"))
            yield from VolumeCheck(self._backing, volume, receipts).findings()
            check.took(Kind.VOLUMES, volume.size)
