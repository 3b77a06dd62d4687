"""Proving a warehouse: its log, every file that it names, every column of every table.

Nothing is changed, and nothing that is damaged keeps the rest from being read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from operator import attrgetter

from transforms.block_range import BlockRange
from transforms.duck_files import FOREIGN_LOG, log_beside
from transforms.errors import IntegrityError
from transforms.objects import StoredFile
from transforms.verifying.counts import Kind
from transforms.verifying.findings import (
    REPAIR,
    REPAIR_AND_LOAD,
    REPAIR_AND_LOAD_CAPTURES,
    Finding,
    Problem,
    Remedy,
    move_away,
)
from transforms.verifying.verification import Verification
from transforms.warehouse.checks.file_check import (
    NOT_READ,
    NOT_THERE,
    file_findings,
    proof_of,
    replacement,
)
from transforms.warehouse.checks.log_check import (
    log_findings,
    orphan_findings,
    read_log,
    view_findings,
)
from transforms.warehouse.checks.run_check import RunCheck
from transforms.warehouse.checks.volume_check import VolumeCheck, volume_check
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.lost_files import MISSING, absent_files
from transforms.warehouse.log.losses import LostRowsError
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.holding import Holding
from transforms.warehouse.manifests.manifest import manifest_receipts
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.manifests.shapes import Volume

_ORDER = attrgetter("table", "blocks")
_MOST_NAMED = 5


class WarehouseCheck:
    """One check of a warehouse. `holding` is what it holds, once `findings` has come to its end."""

    def __init__(self, backing: Backing, verification: Verification) -> None:
        self._backing = backing
        self._verification = verification
        self.holding = Holding()

    @cached_property
    def _begun(self) -> float:
        return self._backing.store.now()

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong; nothing, if all is well. Errors of the machine pass through."""
        state = read_log(self._backing)
        snapshot = state.newest()
        yield from log_findings(self._backing, state, self._verification)
        if snapshot is None:
            return
        self.holding.chain_id = snapshot.chain_id
        if snapshot.losses:
            place = self._backing.store.describe()
            lost = LostRowsError(place, snapshot.losses)
            yield Finding(Problem.MISSING, place, f"it {lost.what}", lost.remedy)
        for volume in snapshot.history():
            if self._verification.scope.reaches(volume.blocks):
                yield from self._manifest(volume)
        yield from self._other_files(snapshot)
        if self._verification.scope.is_whole:
            yield from view_findings(self._backing)
            yield from orphan_findings(self._backing, snapshot)
        yield from self._volumes(snapshot)

    def _manifest(self, volume: Volume) -> Iterator[Finding]:
        """Hash the manifest of a run of segments, and believe it only then."""
        if settle := self._verification.settle_seconds:
            info = self._backing.store.head(volume.key)
            if info is not None and self._begun - info.modified < settle:
                self.holding.unsettled.append(volume.blocks)
        findings = list(self._file(volume.file, REPAIR_AND_LOAD))
        if not findings:
            self._backing.files.bring([volume.file])
            try:
                self.holding.add(volume, self._backing.files.path(volume.file))
                return
            except IntegrityError as error:
                place = self._backing.store.describe(volume.key)
                findings.append(Finding(Problem.DAMAGED, place, str(error), REPAIR_AND_LOAD))
        self.holding.unread.append(volume.blocks)
        yield from findings

    def _other_files(self, snapshot: Snapshot) -> Iterator[Finding]:
        if not self._verification.scope.is_whole:
            return
        for refused in snapshot.quarantine:
            if refused.copy:
                yield from self._file(refused.copy, REPAIR)
        if snapshot.captures:
            findings = list(self._file(snapshot.captures, REPAIR_AND_LOAD_CAPTURES))
            if log := log_beside(self._backing.files.path(snapshot.captures)):
                findings.append(Finding(Problem.DAMAGED, str(log), FOREIGN_LOG, REPAIR))
            yield from findings or self._captures(snapshot.captures)

    def _file(self, file: StoredFile, remedy: Remedy) -> Iterator[Finding]:
        """A small file, which is read whatever is chosen otherwise."""
        counts = self._verification.counts
        counts.expect(Kind.DOCUMENTS)
        findings = list(file_findings(self._backing, file, remedy))
        if not any(finding.problem in NOT_READ for finding in findings):
            counts.read(Kind.DOCUMENTS)
        yield from findings

    def _captures(self, captures: StoredFile) -> Iterator[Finding]:
        place = self._backing.store.describe(captures.key)
        with volume_check(self._backing, self._backing.files.path(captures)) as check:
            tables = check.tables([], self._verification.scope)
            problems = [f"{table}: {problem}" for table, problem in tables if problem]
        for problem in (*check.problems, *problems):
            yield Finding(Problem.DAMAGED, place, problem, move_away(place))

    def _volumes(self, snapshot: Snapshot) -> Iterator[Finding]:
        verification = self._verification
        volumes = [item for item in snapshot.volumes if verification.scope.reaches(item.blocks)]
        chosen = verification.sampled(volumes)
        for volume in volumes:
            self._expect(volume, is_chosen=volume.key in chosen)
        yield from self._present([volume for volume in volumes if volume.key not in chosen])
        for volume in volumes:
            if verification.is_over():
                return
            if volume.key not in chosen:
                continue
            if volume.kind == "history":
                yield from self._run(volume)
            elif log := log_beside(self._backing.files.path(volume.file)):
                yield Finding(Problem.DAMAGED, str(log), FOREIGN_LOG, REPAIR)
            else:
                findings = [*self._state(volume)]
                yield from findings
                check = RunCheck(self._backing, verification, volume, None)
                yield from check.index_findings(is_sound=not findings)

    def _run(self, volume: Volume) -> Iterator[Finding]:
        """A run of segments, by its manifest where that is sound."""
        receipts = None
        if self.holding.of_volume(volume):
            path = self._backing.files.path(volume.file)
            receipts = sorted(manifest_receipts([path]), key=_ORDER)
        check = RunCheck(self._backing, self._verification, volume, receipts)
        yield from check.findings()
        if check.was_read:
            self._verification.counts.read(Kind.VOLUMES, is_earlier=check.was_earlier)
        if self._verification.is_quick:
            self._verification.report(Kind.VOLUMES)

    def _expect(self, volume: Volume, *, is_chosen: bool) -> None:
        counts, scope = self._verification.counts, self._verification.scope
        is_read = not self._verification.is_quick
        tables = sum(map(scope.has_table, volume.shapes))
        counts.expect(Kind.VOLUMES, is_chosen=is_chosen)
        files = [file for table, file in volume.data.items() if scope.has_table(table)]
        size = sum(file.size for file in files) if volume.kind == "history" else volume.size
        counts.expect(Kind.BYTES, size, is_chosen=is_chosen)
        counts.expect(Kind.TABLES, tables, is_chosen=is_read)
        counts.expect(Kind.SEGMENTS, len(self._segments(volume)), is_chosen=is_read)

    def _segments(self, volume: Volume) -> set[BlockRange]:
        """The segments of a volume that are checked, as far as its record says them."""
        scope = self._verification.scope
        return {blocks for blocks in self.holding.of_volume(volume) if scope.reaches(blocks)}

    def _present(self, volumes: Sequence[Volume]) -> Iterator[Finding]:
        """The files of volumes that a sample leaves out are there, at least, with all bytes."""
        files = (file for volume in volumes for file in volume.row_files)
        for file, problem in absent_files(self._backing.store, files).items():
            place = self._backing.store.describe(file.key)
            if problem == MISSING:
                yield Finding(Problem.MISSING, place, NOT_THERE, REPAIR_AND_LOAD)
            else:
                what = f"it {problem} as when it was written"
                yield Finding(Problem.DAMAGED, place, what, REPAIR_AND_LOAD)

    def _state(self, volume: Volume) -> Iterator[Finding]:
        """A current state, which is read whole."""
        verification, counts = self._verification, self._verification.counts
        proof = proof_of(self._backing, volume.file, volume.file.sha256)
        is_earlier = verification.proven.has(proof)
        if is_earlier:
            findings = []
            tables = sum(map(verification.scope.has_table, volume.shapes))
            counts.read(Kind.TABLES, tables, is_earlier=True)
        else:
            findings = list(file_findings(self._backing, volume.file, REPAIR_AND_LOAD))
            if any(finding.problem in NOT_READ for finding in findings):
                yield from findings
                return
            if not verification.is_quick:
                findings = list(self._tables(volume, findings))
        yield from findings
        counts.read(Kind.VOLUMES, is_earlier=is_earlier)
        counts.read(Kind.BYTES, volume.size, is_earlier=is_earlier)
        verification.report(Kind.VOLUMES if verification.is_quick else Kind.TABLES)
        if not findings and not verification.is_quick:
            verification.proven.keep(proof)

    def _tables(self, volume: Volume, findings: list[Finding]) -> Iterator[Finding]:
        """Read what a volume holds; what is wrong goes to what was found of its file."""
        path = self._backing.files.path(volume.file)
        place = self._backing.store.describe(volume.key)
        if not path.exists():  # of a bucket, and what it gives cannot be used
            yield from findings
            return
        with volume_check(self._backing, path) as check:
            problems = list(self._read(volume, check, check.receipts()))
        problems = [*check.problems, *problems]
        for finding in findings:
            if finding.place == place:
                yield replace(finding, what="; ".join([finding.what, *_shortened(problems)]))
            else:
                yield finding
        if not findings:
            for problem in problems:
                yield Finding(Problem.DAMAGED, place, problem, replacement(place))

    def _read(
        self, volume: Volume, check: VolumeCheck, receipts: Sequence[Receipt]
    ) -> Iterator[str]:
        """Read all tables of a volume; yields what is wrong."""
        counts, scope = self._verification.counts, self._verification.scope
        for table, problem in check.tables(receipts, scope):
            if table in volume.shapes:
                counts.read(Kind.TABLES)
                self._verification.report(Kind.TABLES)
            if problem:
                yield f"{table}: {problem}"


def _shortened(problems: Sequence[str]) -> list[str]:
    more = len(problems) - _MOST_NAMED
    return [*problems[:_MOST_NAMED], *([f"and {more} more of its tables"] if more > 0 else [])]
