"""Reading a chain's lake back: each table has just the data files of what is published.

A file must hash to what its name says, and have the name of the warehouse's data file of its
blocks, which is proven there to render the CSV of every segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from exporters.archive.archive import Archive
from exporters.archive.lake_place import LOG
from exporters.archive.sound_documents import sound_index
from exporters.archive.sums import completeness
from exporters.lake.lake_files import SEGMENT_TABLES, Lake, file_name
from exporters.lake.log.table_version import ActiveFile, parsed_name
from exporters.lake.tables import LakeTable
from exporters.verifying.named_files import NamedFiles
from transforms.coverage import difference, union
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

    What is Strata's there is added to `named`. `holding` is what the chain's warehouse holds, of
    which what is published should be in the lake; without one, the lake is checked by itself.
    Errors of the machine pass through.
    """

    archive: Archive
    verification: Verification
    named: NamedFiles
    holding: Holding | None = None

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong; nothing, if all is well."""
        published: list[Volume] = []
        if self.holding:  # before the logs: what is published meanwhile is not missed in them
            complete = completeness(sound_index(self.archive).tables).complete
            published = [
                volume
                for volume in self.holding.due
                if any(run.holds(volume.blocks) for run in complete)
            ]
        lake = Lake(self.archive)
        for name in sorted({*lake.look(), *(SEGMENT_TABLES if self.holding else ())}):
            yield from self._table(lake.table(name), published)

    def _table(self, table: LakeTable, published: Sequence[Volume]) -> Iterator[Finding]:
        """Open a table's log, which should name one sound set of files; compare and read these."""
        is_history, place = table.name in SEGMENT_TABLES, table.place(LOG)

        def problem() -> str:
            if table.version().number < 0 and table.infos and is_history:
                raise FileNotFoundError(place)
            return ""

        if findings := read_findings(place, problem, make_again(place), LAKE_PUBLISH):
            yield from findings
            return
        if is_history and self.holding is not None:
            yield from self._compared(table, published, self.holding)
        size = sum(file.bytes for file in table.files)
        self.verification.expect(Kind.LAKE_FILES, len(table.files), size)
        for file in table.files:
            where, read = table.place(file.name), partial(self._file_problem, table, file)
            yield from read_findings(where, read, put_again(where), LAKE_PUBLISH)
        if table.version().number >= 0:  # what no version names, who publishes removes in time
            ours = (path for path in table.infos if path.startswith(f"{LOG}/") or parsed_name(path))
            self.named.add(map(table.key, ours))

    def _compared(
        self, table: LakeTable, published: Sequence[Volume], holding: Holding
    ) -> Iterator[Finding]:
        """Hold a table of history against the warehouse's volumes."""
        due = {volume.blocks: volume for volume in holding.due}
        for file in table.history:
            volume = due.get(file.blocks)
            if volume and file.name != file_name(volume, table.name):
                what = "it is not the data file that the warehouse has of these blocks"
                where = table.place(file.name)
                yield Finding(Problem.DISAGREEMENT, where, what, LAKE_PUBLISH)
        place, present = table.place(), union(file.blocks for file in table.history)
        wanted = union(v.blocks for v in published if file_name(v, table.name))
        for blocks in difference(wanted, present):
            what = f"blocks {blocks} are published, and not in the lake"
            yield Finding(Problem.NOT_PUBLISHED, place, what, LAKE_PUBLISH)
        for blocks in difference(present, holding.loaded):
            what = f"blocks {blocks} are in the lake, and the warehouse does not hold them"
            yield Finding(Problem.NOT_LOADED, place, what, LOAD)

    def _file_problem(self, table: LakeTable, file: ActiveFile) -> str:
        """Hash a file that a table names; a quick check one that it does not know."""
        key, store = table.key(file.name), self.archive.store
        # A listing is not believed: what it lacks is asked for by name.
        info = table.infos.get(file.name) or store.head(key)
        if info is None:
            raise FileNotFoundError(key)
        if info.size != file.bytes:
            return f"it has {info.size} bytes, not {file.bytes}"
        fact = f"{store.describe(key)} {info.size} {info.version}"
        if self.verification.is_known(fact):
            return ""
        sha256 = object_sha256(store, key)
        self.verification.took(Kind.LAKE_FILES, file.bytes)
        if not file.is_of(sha256):
            return f"it hashes to {sha256}, which its name does not say"
        self.verification.proven.add(fact)
        return ""
