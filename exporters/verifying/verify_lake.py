"""Reading a chain's lake back: each table has just the data files of what is published.

A file must hash to what its name says, and have the name of the data file of a volume. That is one
of the warehouse, which is proven there to render the CSV of every segment. Without a warehouse, it
is one of the lake's manifests, whose receipts are compared with the published ZIPs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.csv_columns import digests
from exporters.archive.lake_place import LOG, MANIFESTS, STATE_MANIFEST
from exporters.archive.sound_documents import sound_index
from exporters.archive.sums import completeness
from exporters.lake.lake_files import SEGMENT_TABLES, Lake, file_name
from exporters.lake.log.table_version import ActiveFile, parsed_name
from exporters.lake.tables import LakeTable
from exporters.verifying.named_files import NamedFiles
from transforms.block_range import BlockRange
from transforms.coverage import difference, union
from transforms.errors import IntegrityError
from transforms.objects import StoredFile
from transforms.scratch import scratch_folder
from transforms.stores.store import content_sha256, object_sha256
from transforms.tables.registry import HISTORY_TABLES
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
from transforms.warehouse.manifests.manifest import manifest_receipts, read_about
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.manifests.shapes import Volume


@dataclass
class LakeCheck:
    """One check of one chain's lake.

    What is Strata's there is added to `named`. `holding` is what the chain's warehouse holds, of
    which what is published should be in the lake; without one, the lake is checked by itself, and
    copies of its manifests lie in `scratch`.
    Errors of the machine pass through.
    """

    archive: Archive
    verification: Verification
    named: NamedFiles
    scratch: Path | None = None
    holding: Holding | None = None

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong; nothing, if all is well."""
        volumes: list[Volume] = []
        if self.holding:  # before the logs: what is published meanwhile is not missed in them
            complete = completeness(sound_index(self.archive).tables).complete
            volumes = [
                volume
                for volume in self.holding.due
                if any(run.holds(volume.blocks) for run in complete)
            ]
        lake = Lake(self.archive)
        names = {*lake.look(), *(SEGMENT_TABLES if self.holding else ())}
        yield from self._read_manifests(lake.table(MANIFESTS), volumes)
        for name in sorted(names):
            yield from self._table(lake.table(name), volumes)
        with suppress(IntegrityError):  # a damaged table was found above
            yield from self._states(lake)

    def _states(self, lake: Lake) -> Iterator[Finding]:
        """Compare the tables of current state with their receipts."""
        manifests = lake.table(STATE_MANIFEST)
        for newest in manifests.files[-1:]:
            with scratch_folder(self.scratch) as folder:
                paths = [manifests.fetch(newest, folder)]
                if self.holding:
                    snapshot, files = self.holding.catalog.snapshot, self.holding.catalog.files
                    states = (s.file for s in snapshot.states if s.blocks == newest.blocks)
                    paths = files.bring(states) or paths
                receipts = manifest_receipts(paths)
            for table, csv in ((lake.table(one.table), one.sha256) for one in receipts):
                for file in table.files:
                    # A publisher writes the manifest after the tables.
                    if file.csv not in ("", csv) and file.blocks.last <= newest.blocks.last:
                        what = f"it is not the current state after segment {newest.blocks}"
                        remedy = make_again(table.place(LOG))
                        yield Finding(Problem.DISAGREEMENT, table.place(file.name), what, remedy)

    def _read_manifests(self, table: LakeTable, volumes: list[Volume]) -> Iterator[Finding]:
        """Add the volumes of manifests, and compare their receipts with the published ZIPs.

        With a warehouse, these are volumes that it has merged since it published them: only those
        with its own receipts are added.
        """
        known = {file_name(volume, MANIFESTS) for volume in volumes}
        with suppress(IntegrityError), scratch_folder(self.scratch) as folder:
            for file in table.history:  # a damaged one is found where all files are read
                if file.name in known:
                    continue
                path = table.fetch(file, folder)
                stored = StoredFile(file.name, file.bytes, content_sha256(path))
                what = self._unpublished(file.blocks, manifest_receipts([path]))
                if not (what and self.holding):
                    volumes.append(read_about(path, stored)[1])
                if what and not self.holding:
                    place = table.place(file.name)
                    yield Finding(Problem.DISAGREEMENT, place, what, LAKE_PUBLISH)

    def _unpublished(self, blocks: BlockRange, receipts: Sequence[Receipt]) -> str:
        """The first receipt of a manifest that no published ZIP has; "" if there is none.

        With a warehouse, the first one that this does not have.
        """
        wanted = set[tuple[str, int, int, str]]()
        if self.holding:
            wanted.update(map(_identity, self.holding.catalog.receipts(blocks)))
        for name in () if self.holding else HISTORY_TABLES:
            csvs = self.archive.csvs_inside(name, blocks, lambda _error: None)
            hashes = map(bytes.hex, digests(csvs.csv_sha256))
            rows = zip(csvs.firsts, csvs.lasts, hashes, strict=True)
            wanted.update((name, *row) for row in rows)
        for receipt in (receipt for receipt in receipts if receipt.table in HISTORY_TABLES):
            if _identity(receipt) not in wanted:
                return f"its {receipt.table} of segment {receipt.blocks} is not the published one"
        return ""

    def _table(self, table: LakeTable, volumes: Sequence[Volume]) -> Iterator[Finding]:
        """Open a table's log, which should name one sound set of files; compare and read these."""
        is_history, place = table.name in SEGMENT_TABLES, table.place(LOG)

        def problem() -> str:
            if table.version().number < 0 and table.infos and is_history:
                raise FileNotFoundError(place)
            return ""

        if findings := read_findings(place, problem, make_again(place), LAKE_PUBLISH):
            yield from findings
            return
        if is_history:
            yield from self._compared(table, volumes)
        size = sum(file.bytes for file in table.files)
        self.verification.expect(Kind.LAKE_FILES, len(table.files), size)
        for file in table.files:
            where, read = table.place(file.name), partial(self._file_problem, table, file)
            yield from read_findings(where, read, put_again(where), LAKE_PUBLISH)
        if table.version().number >= 0:  # what no version names, who publishes removes in time
            ours = (path for path in table.infos if path.startswith(f"{LOG}/") or parsed_name(path))
            self.named.add(map(table.key, ours))

    def _compared(self, table: LakeTable, volumes: Sequence[Volume]) -> Iterator[Finding]:
        """Compare a table of history with the data files of volumes."""
        names = {(volume.blocks, file_name(volume, table.name)) for volume in volumes}
        runs = union(blocks for blocks, _ in names)
        keeper = "warehouse" if self.holding else "lake's manifest"
        for file in table.history:
            is_known = (file.blocks, file.name) in names
            if not is_known and any(map(file.blocks.overlaps, runs)):
                what = f"it is not the data file that the {keeper} has of these blocks"
                is_inside = any(run.holds(file.blocks) for run in runs)
                remedy = LAKE_PUBLISH if is_inside else make_again(table.place(LOG))
                yield Finding(Problem.DISAGREEMENT, table.place(file.name), what, remedy)
        place, present = table.place(), union(file.blocks for file in table.history)
        wanted = union(blocks for blocks, name in names if name)
        for blocks in difference(wanted, present):
            what = f"blocks {blocks} are published, and not in the lake"
            yield Finding(Problem.NOT_PUBLISHED, place, what, LAKE_PUBLISH)
        if self.holding:
            for blocks in difference(present, self.holding.loaded):
                what = f"blocks {blocks} are in the lake, and the warehouse does not hold them"
                yield Finding(Problem.NOT_LOADED, place, what, LOAD)
            return
        for blocks in difference(present, completeness(sound_index(self.archive).tables).complete):
            what = f"blocks {blocks} are in the lake, and not published with every table"
            yield Finding(Problem.NOT_PUBLISHED, place, what, LAKE_PUBLISH)

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


def _identity(receipt: Receipt) -> tuple[str, int, int, str]:
    return receipt.table, receipt.blocks.first, receipt.blocks.last, receipt.sha256
