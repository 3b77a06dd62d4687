"""Reading a chain's lake back: each table has just the data files of what is published.

A file must hash to what its name says, and have the name of the warehouse's data file of its
blocks, which is proven there to render the CSV of every segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from exporters.archive.archive import Archive
from exporters.archive.lake_place import LAKE, LOG
from exporters.archive.sound_documents import sound_index
from exporters.archive.sums import completeness
from exporters.lake.lake_files import SEGMENT_TABLES, Lake, file_name
from exporters.lake.log.table_version import ActiveFile
from exporters.lake.publication.lake_sweep import unnamed_since
from exporters.lake.tables import LakeTable, Version
from exporters.verifying.listing import StoreListing
from transforms.coverage import Coverage, difference, inside, union
from transforms.errors import IntegrityError
from transforms.stores.store import object_sha256
from transforms.verifying.findings import (
    LAKE_PUBLISH,
    LOAD,
    RESTORE,
    Finding,
    Problem,
    Remedy,
    make_again,
    put_again,
    read_findings,
    run_sentences,
)
from transforms.verifying.verification import YOUNG_SECONDS, Kind, Verification
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
    listing: StoreListing
    is_wanted: bool = False
    holding: Holding | None = None
    _damaged: set[str] = field(default_factory=set)

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong; nothing, if all is well, or where there is no lake nor should be."""
        lake = Lake(self.archive)
        there = {lake.parts(info.key)[0] for info in self.listing.left(lake.folder)} - {""}
        if not there and not self.is_wanted:
            return
        # Before the logs: what is published meanwhile is not missed in them.
        volumes = self._published()
        versions = dict[str, Version]()
        for table in sorted(there):
            yield from self._open(lake, table, versions)
        if self.holding is not None:
            yield from self._compared(lake, self.holding, volumes, versions)
        yield from self._files(versions)
        self._cross_off(lake, versions)

    def _published(self) -> list[Volume]:
        """The volumes that are published, and should be in the lake by now."""
        if self.holding is None:
            return []
        complete = completeness(sound_index(self.archive).tables).complete
        volumes = [v for v in self.holding.volumes if self.holding.is_due(v.blocks)]
        published = frozenset(inside([volume.blocks for volume in volumes], complete))
        return [volume for volume in volumes if volume.blocks in published]

    def _open(self, lake: Lake, table: str, versions: dict[str, Version]) -> Iterator[Finding]:
        """Open a table's log, and see that it names one sound set of files."""
        place, is_history = lake.place(table, LOG), table in SEGMENT_TABLES
        try:
            version = LakeTable(lake, table).version()
        except IntegrityError as error:
            self._damaged.add(table)
            remedy = RESTORE if self.holding is None else make_again(place)
            yield Finding(Problem.DAMAGED, place, str(error), remedy)
            return
        if version is not None:
            self.verification.took_document()
            versions[table] = version
            remedy = RESTORE
            if self.holding is not None:  # a table of current state is made anew whole
                remedy = make_again(place if is_history else lake.place(table))
            for what in _log_problems(version):
                yield Finding(Problem.DAMAGED, place, what, remedy)
        elif is_history:  # what lies in other folders, nothing names
            self._damaged.add(table)
            remedy = RESTORE if self.holding is None else LAKE_PUBLISH
            yield Finding(Problem.MISSING, place, "the table has no log", remedy)

    def _compared(
        self,
        lake: Lake,
        holding: Holding,
        volumes: list[Volume],
        versions: Mapping[str, Version],
    ) -> Iterator[Finding]:
        """Hold each table against the warehouse's volumes."""
        due = {volume.blocks: volume for volume in holding.volumes if holding.is_due(volume.blocks)}
        lacking = dict[str, Coverage]()
        loaded = union((*holding.segments, *holding.unread))
        for table in frozenset(SEGMENT_TABLES) - self._damaged:
            ours = versions[table].ours if table in versions else ()
            files = [file for file in ours if not file.csv]  # others are of current state
            for file in files:
                volume = due.get(file.blocks)
                if volume and file.name != file_name(volume, table):
                    where = lake.place(table, file.name)
                    what = "it is not the data file that the warehouse has of these blocks"
                    yield Finding(Problem.DISAGREEMENT, where, what, LAKE_PUBLISH)
            present = union(file.blocks for file in files)
            wanted = union(volume.blocks for volume in volumes if file_name(volume, table))
            if runs := difference(wanted, present):
                lacking[table] = runs
            for _, beginning in run_sentences(difference(present, loaded)):
                what = f"{beginning} in the lake, and the warehouse does not hold them"
                yield Finding(Problem.NOT_LOADED, lake.place(table), what, LOAD)
        for run, beginning in run_sentences(union(r for runs in lacking.values() for r in runs)):
            tables = sorted(t for t, runs in lacking.items() if any(map(run.overlaps, runs)))
            what = f"{beginning} published, and not in the lake ({', '.join(tables)})"
            yield Finding(Problem.NOT_PUBLISHED, self.archive.place(LAKE), what, LAKE_PUBLISH)

    def _files(self, versions: Mapping[str, Version]) -> Iterator[Finding]:
        check = self.verification
        files = [(version, file) for version in versions.values() for file in version.ours]
        chosen = {file.name for _, file in check.chosen(Kind.LAKE_FILES, files)}
        check.expect(Kind.LAKE_FILES, len(files), sum(file.bytes for _, file in files))
        for version, file in files:
            missing, damaged = self._remedies(version, file)
            key = version.lake.key(version.table, file.name)
            findings = [*self.listing.present(key, file.bytes, "its table", missing, damaged)]
            yield from findings
            if not findings and file.name in chosen:
                place = version.lake.place(version.table, file.name)
                read = partial(self._hash_problem, key, file)
                yield from read_findings(place, read, damaged, missing)
                check.took(Kind.LAKE_FILES, file.bytes)

    def _hash_problem(self, key: str, file: ActiveFile) -> str:
        sha256 = object_sha256(self.archive.store, key)
        return "" if file.is_of(sha256) else f"it hashes to {sha256}, which its name does not say"

    def _remedies(self, version: Version, file: ActiveFile) -> tuple[Remedy, Remedy]:
        """What mends a file that is gone, and one that is damaged."""
        if self.holding is None:
            return RESTORE, RESTORE
        if file.csv:  # who publishes writes it again for another state only
            again = make_again(version.lake.place(version.table))
            return again, again
        return LAKE_PUBLISH, put_again(version.lake.place(version.table, file.name))

    def _cross_off(self, lake: Lake, versions: Mapping[str, Version]) -> None:
        """Cross off what belongs to the lake, and what who publishes removes after a week.

        Of damaged tables nothing is known. What is left then is a stranger.
        """
        accounted = []
        for info in self.listing.left(lake.folder):
            table, name = lake.parts(info.key)
            is_young = self.listing.time - info.modified < YOUNG_SECONDS
            version = versions.get(table)
            is_ours = version is not None and unnamed_since(version, name, info) is not None
            if table in self._damaged or is_young or is_ours:
                accounted.append(info.key)
        self.listing.cross_off(accounted)


def _log_problems(version: Version) -> Iterator[str]:
    for file in version.foreign:
        yield f"it names {file.name}, which Strata did not write"
    if version.table in SEGMENT_TABLES:
        for lower, upper in pairwise(version.ours):
            if lower.blocks.overlaps(upper.blocks):
                yield f"it has blocks twice: {lower.name} and {upper.name}"
    elif len(version.ours) != 1 and not version.foreign:
        yield f"it has {len(version.ours)} files, and should have the newest copy alone"
