"""Reading a chain's lake back: each table has just the data files of what is published.

A file must hash to what its name says, and have the name of the warehouse's data file of its
blocks, which is proven there to render the CSV of every segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

from exporters.archive.archive import Archive
from exporters.archive.lake_place import LOG
from exporters.archive.sound_documents import sound_index
from exporters.archive.sums import completeness
from exporters.lake.lake_files import SEGMENT_TABLES, Lake, file_name
from exporters.lake.log.table_version import ActiveFile, parsed_name
from exporters.verifying.record import Record
from transforms.coverage import difference, inside, union
from transforms.errors import IntegrityError
from transforms.stores.store import object_sha256
from transforms.verifying.findings import (
    LAKE_PUBLISH,
    LOAD,
    Finding,
    Problem,
    make_again,
    put_again,
    read_findings,
)
from transforms.verifying.verification import Kind, Verification
from transforms.warehouse.checks.warehouse_check import Holding
from transforms.warehouse.manifests.shapes import Volume


@dataclass
class LakeCheck:
    """One check of one chain's lake.

    `is_wanted` says that what is published should be in it. `holding` is what the chain's warehouse
    holds; without one, the lake is checked by itself. Errors of the machine pass through.
    """

    archive: Archive
    verification: Verification
    record: Record
    is_wanted: bool = False
    holding: Holding | None = None

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong; nothing, if all is well, or where there is no lake nor should be."""
        lake = self.lake
        there = {lake.parts(info.key)[0] for info in self.record.beginning(lake.folder)} - {""}
        if not there and not self.is_wanted:
            return
        _ = self._published  # before the logs: what is published meanwhile is not missed in them
        for table in sorted({*there, *(SEGMENT_TABLES if self.holding else ())}):
            yield from self._table(table, is_there=table in there)

    @cached_property
    def lake(self) -> Lake:
        """What is checked."""
        return Lake(self.archive)

    @cached_property
    def _published(self) -> list[Volume]:
        """The volumes that are published, and should be in the lake by now."""
        if self.holding is None:
            return []
        complete = completeness(sound_index(self.archive).tables).complete
        volumes = [v for v in self.holding.volumes if self.holding.is_due(v.blocks)]
        published = frozenset(inside([volume.blocks for volume in volumes], complete))
        return [volume for volume in volumes if volume.blocks in published]

    def _table(self, table: str, *, is_there: bool) -> Iterator[Finding]:
        """Open a table's log, which should name one sound set of files; compare and read these."""
        is_history, place = table in SEGMENT_TABLES, self.lake.place(table, LOG)
        version, finding = None, None
        try:
            version = self.lake.table(table).version() if is_there else None
        except IntegrityError as error:
            finding = Finding(Problem.DAMAGED, place, str(error), make_again(place))
        if finding is None and version is None and is_there and is_history:
            finding = Finding(Problem.MISSING, place, "the table has no log", LAKE_PUBLISH)
        if finding is not None:  # which of its files are strange, nothing says
            yield finding
            self.record.name_all(self.lake.key(table, ""))
            return
        files = version.files if version else ()
        if is_history and self.holding is not None:
            yield from self._compared(table, files, self.holding)
        size = sum(file.bytes for file in files)
        self.verification.expect(Kind.LAKE_FILES, len(files), size)
        for file in files:
            yield from self._file(table, file)
        if version is not None:
            self._name(table)

    def _compared(
        self, table: str, files: tuple[ActiveFile, ...], holding: Holding
    ) -> Iterator[Finding]:
        """Hold a table of history against the warehouse's volumes."""
        due = {volume.blocks: volume for volume in holding.volumes if holding.is_due(volume.blocks)}
        files = tuple(file for file in files if not file.csv)  # others are of current state
        for file in files:
            volume = due.get(file.blocks)
            if volume and file.name != file_name(volume, table):
                where = self.lake.place(table, file.name)
                what = "it is not the data file that the warehouse has of these blocks"
                yield Finding(Problem.DISAGREEMENT, where, what, LAKE_PUBLISH)
        place, present = self.lake.place(table), union(file.blocks for file in files)
        wanted = union(v.blocks for v in self._published if file_name(v, table))
        for blocks in difference(wanted, present):
            what = f"blocks {blocks} are published, and not in the lake"
            yield Finding(Problem.NOT_PUBLISHED, place, what, LAKE_PUBLISH)
        loaded = union((*holding.segments, *holding.unread))
        for blocks in difference(present, loaded):
            what = f"blocks {blocks} are in the lake, and the warehouse does not hold them"
            yield Finding(Problem.NOT_LOADED, place, what, LOAD)

    def _file(self, table: str, file: ActiveFile) -> Iterator[Finding]:
        """Hash a file that a table names; a quick check one that it does not know."""
        place = self.lake.place(table, file.name)
        missing, damaged = LAKE_PUBLISH, put_again(place)
        if file.csv:  # who publishes writes it again for another state only
            missing = damaged = make_again(self.lake.place(table))
        read = partial(self._file_problem, self.lake.key(table, file.name), file)
        yield from read_findings(place, read, damaged, missing)

    def _file_problem(self, key: str, file: ActiveFile) -> str:
        info = self.record.find(key)
        if info is None:
            raise FileNotFoundError(key)
        if info.size != file.bytes:
            return f"it has {info.size} bytes, not {file.bytes}"
        if self.verification.is_quick and self.record.is_as_before(key):
            return ""
        sha256 = object_sha256(self.archive.store, key)
        self.verification.took(Kind.LAKE_FILES, file.bytes)
        return "" if file.is_of(sha256) else f"it hashes to {sha256}, which its name does not say"

    def _name(self, table: str) -> None:
        """Name what belongs to a table, and what who publishes removes after a week."""
        named = []
        for info in self.record.beginning(self.lake.key(table, "")):
            name = self.lake.parts(info.key)[1]
            if name.startswith(f"{LOG}/") or parsed_name(name):
                named.append(info.key)
        self.record.name(named)
