"""Reading a chain's lake back: each table has just the data files of what is loaded.

A file must hash to what its name says, and have the name of the warehouse's data file of its
blocks, which is proven there to render the CSV of every segment. Its table's log must say of it
what it has; receipts must be those of the published ZIPs, and every published segment must be in
every table.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.lake_place import LOG, MANIFESTS, STATE_MANIFEST
from exporters.lake.lake_files import SEGMENT_TABLES, Lake, file_name
from exporters.lake.log.table_version import ActiveFile
from exporters.lake.publication.state_age import is_recent
from exporters.lake.publication.state_tables import state_digests
from exporters.lake.tables import LakeTable, Version
from exporters.verifying.expected import Expected
from exporters.verifying.lake_leftovers import cross_off_leftovers
from exporters.verifying.lake_segments import SegmentsCheck
from exporters.verifying.listing import StoreListing
from exporters.verifying.named_objects import NamedObject, NamedObjects
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
    put_again,
)
from transforms.verifying.verification import Kind, Verification
from transforms.warehouse.manifests.shapes import Volume


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
    _chosen: dict[str, list[tuple[ActiveFile, NamedObject, bool]]] = field(default_factory=dict)
    _damaged: set[str] = field(default_factory=set)

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong; nothing, if all is well, or where there is no lake nor should be."""
        lake = self._lake
        objects = NamedObjects(self.archive.store, self.verification, self.listing)
        there = {lake.parts(info.key)[0] for info in self.listing.left(lake.folder)} - {""}
        if not there and not self.is_wanted:
            return
        # Manifests are committed last, so they tell of all that was opened before.
        for table in sorted(there, key=lambda name: name == MANIFESTS):
            yield from self._open(table)
        with (
            scratch_folder(self.scratch) as folder,
            lake_reader(folder, self.memory_mb) as opened,
        ):
            reader = LakeFileReader(objects, folder, opened)
            for version in self._versions.values():
                self._choose(version, reader)
            yield from self._read(reader)
            if not self.verification.was_stopped:
                cross_off_leftovers(lake, self.listing, self._versions, self._damaged)

    @cached_property
    def _lake(self) -> Lake:
        return Lake(self.archive, self.memory_mb)

    # --- logs

    def _open(self, table: str) -> Iterator[Finding]:
        """Open a table's log, and see that it names one sound set of files."""
        counts, place = self.verification.counts, self._lake.place(table, LOG)
        is_known = table in SEGMENT_TABLES or (self.state and table in state_digests(self.state))
        try:
            version = LakeTable(self._lake, table).version()
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
        for what in self._log_problems(version):
            yield Finding(Problem.BAD_LAKE_LOG, place, what, self._again(table))
        for file in version.ours:
            volume = None if file.csv else self._volumes.get(file.blocks)
            if volume and file.name != file_name(volume, table):
                where = version.lake.place(table, file.name)
                what = "it is not the data file that the warehouse has of these blocks"
                yield Finding(Problem.BAD_LAKE_FILE, where, what, self._publish())

    def _log_problems(self, version: Version) -> Iterator[str]:
        for file in version.foreign:
            yield f"it names {file.name}, which Strata did not write"
        if version.table in SEGMENT_TABLES:
            for lower, upper in pairwise(version.ours):
                if lower.blocks.overlaps(upper.blocks):
                    yield f"it has blocks twice: {lower.name} and {upper.name}"
        elif len(version.ours) != 1 and not version.foreign:
            yield f"it has {len(version.ours)} files, and should have the newest copy alone"

    @cached_property
    def _volumes(self) -> dict[BlockRange, Volume]:
        """What is loaded, and should be published by now."""
        volumes = self.expected.volumes()
        return {item.blocks: item for item in volumes if self.expected.is_due(item.blocks)}

    def _choose(self, version: Version, reader: LakeFileReader) -> None:
        """Count the files that there are, and choose which are read."""
        table, chosen = version.table, self._chosen.setdefault(version.table, [])
        for file in version.ours:
            key = version.lake.key(table, file.name)
            missing, altered = self._publish(), put_again(version.lake.place(table, file.name))
            if not self.can_publish:
                altered = RESTORE
            elif file.csv:  # who publishes writes it again for another state only
                missing = altered = make_again(version.lake.place(table))
            digest = file.parsed.digest if file.parsed else ""
            item = NamedObject(key, file.bytes, digest, "its table", missing, altered)
            # All tables have about as many files, so that this many are chosen of them together.
            total = len(version.ours) * len(self._versions)
            chosen.append((file, item, reader.expect(item, total)))

    # --- files

    def _read(self, reader: LakeFileReader) -> Iterator[Finding]:
        check, manifests = self.verification, dict[BlockRange, Path]()
        for table in sorted(self._versions):
            version = self._versions[table]
            for file, item, is_chosen in self._chosen[table]:
                if check.is_over():
                    return
                content = partial(self._content, reader, version, file, manifests)
                facts = f"{file.bytes} {file.statistics} {version.content.columns}"
                if table == MANIFESTS:
                    facts = ""  # receipts are read of it
                yield from reader.findings(item, content, facts, is_chosen=is_chosen)
        yield from self._newest_state()

        def lacking_now(table: str, runs: Coverage) -> Coverage:
            """Those of some blocks that the newest version of a table lacks."""
            if not runs:
                return ()
            return difference(runs, _coverage(LakeTable(self._lake, table).version()))

        coverage = {
            table: _coverage(self._versions.get(table))
            for table in SEGMENT_TABLES
            if table not in self._damaged
        }
        sound = None if check.is_quick else manifests
        yield from SegmentsCheck(
            self.archive, check, self.expected, self.can_publish, coverage, sound
        ).findings(lacking_now)

    def _content(
        self,
        reader: LakeFileReader,
        version: Version,
        file: ActiveFile,
        manifests: dict[BlockRange, Path],
        copy: Path,
    ) -> Iterator[Finding]:
        """Hold a file against its table's log; a sound manifest is kept."""
        if self.verification.is_quick:
            return
        problems = [*reader.log_problems(version, file, copy)]
        for what in problems:
            place, again = version.lake.place(version.table, file.name), self._again(version.table)
            yield Finding(Problem.BAD_LAKE_FILE, place, what, again)
        if version.table == MANIFESTS and not problems:
            manifests[file.blocks] = Path(shutil.copyfile(copy, reader.scratch / file.name))

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
        manifest = self._versions.get(STATE_MANIFEST)
        if manifest is not None and is_recent(manifest):
            return  # it waits for its hour
        lacking = []
        for table, digest in sorted(state_digests(self.state).items()):
            if table in self._damaged:
                continue
            files = self._versions[table].ours if table in self._versions else None
            if files and any(file.csv == digest for file in files):
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

    def _again(self, table: str) -> Remedy:
        """What makes a table again: its log is wrong, or the newest state is not what it has."""
        if not self.can_publish:
            return RESTORE
        return make_again(self._lake.place(table, LOG if table in SEGMENT_TABLES else ""))


def _coverage(version: Version | None) -> Coverage:
    """The blocks of the files of history of a table."""
    files = version.ours if version else ()
    return union(file.blocks for file in files if not file.csv)
