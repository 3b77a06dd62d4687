"""Reading a chain's lake back: every file proven by its name, its log and its manifest.

A file must hash to what its name says, render the CSV of every segment (spec 2.8), have the rows,
types and statistics that the log says; receipts must be those of the published ZIPs, and every
published segment must be in every table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.lake_place import LAKE, LOG, MANIFESTS
from exporters.lake.lake_files import SEGMENT_TABLES, Lake
from exporters.lake.log.table_version import ActiveFile
from exporters.lake.publication.state_tables import is_state
from exporters.lake.state_files import STATES, are_states_recent
from exporters.lake.tables import LakeTable, Version
from exporters.verifying.expected import Expected, KeptManifests
from exporters.verifying.lake_leftovers import cross_off_leftovers, state_findings
from exporters.verifying.lake_segments import SegmentsCheck
from exporters.verifying.listing import StoreListing
from exporters.verifying.named_objects import NamedObjects
from exporters.verifying.verify_lake_file import LakeFileReader
from transforms.block_range import BlockRange
from transforms.coverage import Coverage, difference, union
from transforms.errors import IntegrityError
from transforms.lake.parquet_files import lake_reader
from transforms.lake.parquet_rows import LoadedState
from transforms.memory import MEMORY_MB
from transforms.scratch import scratch_folder
from transforms.verifying.findings import (
    LAKE_PUBLISH,
    RESTORE,
    Finding,
    Problem,
    Remedy,
    make_again,
    replace_in_lake,
)
from transforms.verifying.verification import Kind, Verification
from transforms.warehouse.manifests.receipts import Receipt

_EVERYTHING = BlockRange(0, 2**63 - 1)


@dataclass
class LakeCheck:
    """One check of one chain's lake.

    `is_wanted` says that what is published should be in it. One file at a time is copied below
    `scratch`, besides the manifests, which are kept there to the end. `state` is what is loaded,
    where it is known. `can_publish` says that the warehouse is that of the chain. Errors of the
    machine pass through.
    """

    archive: Archive
    verification: Verification
    listing: StoreListing
    scratch: Path | None = None
    is_wanted: bool = False
    expected: Expected = field(default_factory=Expected)
    can_publish: bool = True
    state: LoadedState | None = None
    memory_mb: int = MEMORY_MB
    _versions: dict[str, Version] = field(default_factory=dict)
    _chosen: dict[str, list[tuple[ActiveFile, bool]]] = field(default_factory=dict)
    _damaged: set[str] = field(default_factory=set)

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong; nothing, if all is well, or where there is no lake nor should be."""
        lake = Lake(self.archive, self.memory_mb)
        objects = NamedObjects(self.archive.store, self.verification, self.listing)
        there = {lake.parts(info.key)[0] for info in self.listing.left(lake.folder)} - {"", STATES}
        if not there and not self.is_wanted:
            return
        # Manifests are committed last, so they tell of all that was opened before.
        for table in sorted(there, key=lambda name: name == MANIFESTS):
            yield from self._open(lake, table)
        for version in self._versions.values():
            self._choose(version)
        with (
            scratch_folder(self.scratch) as folder,
            lake_reader(folder, self.memory_mb) as opened,
        ):
            yield from self._read(lake, LakeFileReader(objects, folder, opened))
        if not self.verification.was_stopped:
            yield from state_findings(self.archive, objects)
            cross_off_leftovers(lake, self.listing, self._versions, self._damaged)

    # --- logs

    def _open(self, lake: Lake, table: str) -> Iterator[Finding]:
        """Open a table's log, and see that it names one sound set of files."""
        counts, place = self.verification.counts, lake.place(table, LOG)
        is_known = table in SEGMENT_TABLES or (self.state and table in self.state.receipts)
        try:
            version = LakeTable(lake, table).version()
            if version is None and not is_known:
                return  # the folder of no table: its files are found as what nothing names
            finding = Finding(Problem.MISSING, place, "the table has no log", self._publish())
        except IntegrityError as error:
            version = None
            remedy = make_again(place) if self.can_publish else RESTORE
            finding = Finding(Problem.BAD_LAKE_LOG, place, str(error), remedy)
        counts.expect(Kind.DOCUMENTS)
        if version is None:
            self._damaged.add(table)
            yield finding
            return
        counts.read(Kind.DOCUMENTS)
        self._versions[table] = version
        yield from self._named(version)

    def _named(self, version: Version) -> Iterator[Finding]:
        table, place = version.table, version.lake.place(version.table)
        for file in version.foreign:
            what = f"it names {file.name}, which Strata did not write"
            yield Finding(Problem.BAD_LAKE_LOG, place, what, self._replace(table, None))
        if table in SEGMENT_TABLES:
            for lower, upper in pairwise(version.ours):
                if lower.blocks.overlaps(upper.blocks):
                    both = BlockRange(lower.blocks.first, max(lower.blocks.last, upper.blocks.last))
                    what = f"it has blocks twice: {lower.name} and {upper.name}"
                    remedy = self._replace(table, both)
                    yield Finding(Problem.BAD_LAKE_LOG, place, what, remedy)
        elif len(version.ours) != 1 and not version.foreign:
            what = f"it has {len(version.ours)} files, and should have the newest copy alone"
            yield Finding(Problem.BAD_LAKE_LOG, place, what, self._replace(table, None))

    def _choose(self, version: Version) -> None:
        """Count the files that there are, and choose which are read."""
        check, chosen = self.verification, self._chosen.setdefault(version.table, [])
        for file in version.ours:
            # All tables have about as many files, so that this many are chosen of them together.
            is_chosen = check.chooses(Kind.LAKE_FILES, len(version.ours) * len(self._versions))
            check.counts.expect(Kind.LAKE_FILES, is_chosen=is_chosen)
            check.counts.expect(Kind.BYTES, file.bytes, is_chosen=is_chosen)
            chosen.append((file, is_chosen))

    # --- files

    def _read(self, lake: Lake, reader: LakeFileReader) -> Iterator[Finding]:
        check, manifests = self.verification, KeptManifests()
        if MANIFESTS not in self._versions:
            manifests.lacking.append(_EVERYTHING)
        # Manifests come first: other files are held to them.
        for table in sorted(self._versions, key=lambda name: (name != MANIFESTS, name)):
            version = self._versions[table]
            for file, is_chosen in self._chosen[table]:
                if check.is_over():
                    return
                if is_chosen:
                    yield from self._file(reader, version, file, manifests)
                else:
                    yield from reader.present(version, file, self._replacing(table, file))
        yield from self._newest_state()

        def lacking_now(table: str, runs: Coverage) -> Coverage:
            """Those of some blocks that the newest version of a table lacks."""
            return difference(runs, _coverage(LakeTable(lake, table).version())) if runs else ()

        kept = None if check.is_quick else manifests
        coverage = {
            table: _coverage(self._versions.get(table))
            for table in SEGMENT_TABLES
            if table not in self._damaged
        }
        yield from SegmentsCheck(
            self.archive, check, self.expected, self.can_publish, coverage, kept
        ).findings(lacking_now)

    def _file(
        self, reader: LakeFileReader, version: Version, file: ActiveFile, manifests: KeptManifests
    ) -> Iterator[Finding]:
        remedy = self._replacing(version.table, file)
        if version.table == MANIFESTS:
            copy = reader.scratch / file.name
            findings = [*reader.read(version, file, None, remedy, keep=copy)]
            yield from findings
            if findings:
                manifests.lacking.append(file.blocks)
            else:
                manifests.files[file.blocks] = copy
            return
        receipts = None
        if not self.verification.is_quick:
            receipts = self._of(version.table, file, manifests)
            is_unknown = receipts is None and not file.csv and not manifests.lacks(file.blocks)
            # Manifests are committed last, so the newest files may have none yet.
            if is_unknown and not reader.is_young(version, file):
                place = version.lake.place(version.table, file.name)
                what = "no manifest tells of all of its blocks"
                yield Finding(Problem.BAD_LAKE_FILE, place, what, self._publish())
        yield from reader.findings(version, file, receipts, remedy)

    def _of(
        self, table: str, file: ActiveFile, manifests: KeptManifests
    ) -> Sequence[Receipt] | None:
        """What a file must render to; None where that is not known."""
        if not file.csv:
            return manifests.of(table, file.blocks)
        receipt = self.state.receipts.get(table) if self.state else None
        is_known = receipt is not None and file.csv == receipt.sha256
        return [receipt.since(file.blocks)] if receipt and is_known else None

    def _newest_state(self) -> Iterator[Finding]:
        """Current state that the lake has of an older segment than it should, or not at all."""
        manifests = self._versions.get(MANIFESTS)
        if self.state is None or manifests is None:
            return
        newest = self.state.blocks
        if self.expected.numbers() and not self.expected.is_due(newest):
            return
        if not any(file.blocks.holds(newest) for file in manifests.ours):
            return  # the segment itself lacks
        if are_states_recent(self.archive):
            return  # it waits for its hour
        lacking = []
        for table, receipt in sorted(self.state.receipts.items()):
            if not is_state(table) or table in self._damaged:
                continue
            files = self._versions[table].ours if table in self._versions else None
            if files and any(file.csv == receipt.sha256 for file in files):
                continue  # its rows have not changed since
            if files is None or (files and max(f.blocks.last for f in files) < newest.last):
                lacking.append(table)
        if lacking:
            what = f"it lacks the current state of block {newest.last} ({', '.join(lacking)})"
            place = manifests.lake.place("")
            yield Finding(Problem.NOT_PUBLISHED, place, what, self._publish())

    # --- remedies

    def _publish(self) -> Remedy:
        return LAKE_PUBLISH if self.can_publish else RESTORE

    def _replacing(self, table: str, file: ActiveFile) -> Remedy:
        return self._replace(table, None if file.csv else file.blocks)

    def _replace(self, table: str, blocks: BlockRange | None) -> Remedy:
        if not self.can_publish:
            return RESTORE
        if table in SEGMENT_TABLES:
            return replace_in_lake(table, blocks)
        return make_again(self.archive.place(f"{LAKE}/{table}"))


def _coverage(version: Version | None) -> Coverage:
    """The blocks of the files of history of a table."""
    files = version.ours if version else ()
    return union(file.blocks for file in files if not file.csv)
