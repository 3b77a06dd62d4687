"""The segments of the lake against those of the published ZIPs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from exporters.archive.archive import Archive
from exporters.archive.entries import Csv
from exporters.archive.index import ShardSummary
from exporters.archive.lake_place import LAKE, MANIFESTS
from exporters.archive.shards import shard_blocks, shard_number, shard_path
from exporters.archive.sound_documents import stored_shards
from exporters.verifying.expected import Expected, Named
from exporters.verifying.kept_manifests import KeptManifests
from transforms.block_range import BlockRange
from transforms.coverage import Coverage, difference, inside, union
from transforms.errors import ConfigError, IntegrityError
from transforms.tables.registry import HISTORY_TABLES
from transforms.verifying.findings import (
    LAKE_PUBLISH,
    LAKE_RESTORE,
    LOAD_AND_PUBLISH,
    PUBLISH,
    RESTORE,
    Finding,
    Problem,
    Remedy,
    replace_in_lake,
    run_sentences,
)
from transforms.verifying.verification import Verification

Lacking = Callable[[str, Sequence[BlockRange]], Iterable[BlockRange]]
"""Those of some segments that a table lacks, as its log is now."""


@dataclass(slots=True)
class SegmentsCheck:
    """What is only in one of the lake and the published ZIPs, and what both say differently.

    `coverage` is that of each table of history, and of the manifests, whose log is not damaged.
    `manifests` is None where only logs are read. In memory are the entries of one shard at a time.
    """

    archive: Archive
    verification: Verification
    expected: Expected
    can_publish: bool
    coverage: Mapping[str, Coverage]
    manifests: KeptManifests | None

    def findings(self, lacking_now: Lacking) -> Iterator[Finding]:
        """Compare; what the lake lacks may be under way, so it is asked for again in the end."""
        lacking: dict[str, set[BlockRange]] = {}
        unpublished: set[BlockRange] = set()
        lines = self._lines() if self.manifests is None else {}
        for number in self._numbers():
            if self.verification.is_over():
                return
            is_covered = number in lines and self._covers(ShardSummary.parse(lines[number]))
            zips = None if is_covered else self._zips(number)
            if zips is None:
                continue
            for table, blocks in self._wanted(zips):
                if not self._has(table, blocks) and self._is_due(blocks):
                    lacking.setdefault(table, set()).add(blocks)
            if self.manifests is not None:
                yield from self._compared(number, zips, self.manifests, lacking, unpublished)
        still = {t: {*lacking_now(t, sorted(blocks))} for t, blocks in lacking.items()}
        yield from self._not_in_lake(still)
        yield from self._not_published(unpublished)

    def _lines(self) -> Mapping[int, str]:
        """What the index says of shards of which it says what is right."""
        place, indexed = self.archive.place, self.verification.indexed
        try:
            lines = self.archive.index().lines if indexed else {}
        except (IntegrityError, OSError):
            return {}
        return {n: line for n, line in lines.items() if place(shard_path(n)) in indexed}

    def _numbers(self) -> list[int]:
        """The shards of what is published, and those that the lake's segments would be in."""
        try:
            numbers = {*stored_shards(self.archive)}
        except ConfigError:
            numbers = set()
        for blocks in self.coverage.get(MANIFESTS, ()) if self.manifests is not None else ():
            last = shard_number(BlockRange(blocks.last, blocks.last))
            numbers.update(range(shard_number(blocks), last + 1))
        scope = self.verification.scope.blocks
        return sorted(n for n in numbers if scope is None or shard_blocks(n).first <= scope.last)

    def _covers(self, summary: ShardSummary) -> bool:
        """Whether the lake has all blocks of a shard, in each table that has rows in it."""
        tables = {table: sums.covered for table, sums in summary.tables.items() if sums.rows}
        tables[MANIFESTS] = union(run for sums in summary.tables.values() for run in sums.covered)
        return not any(
            difference(union(covered), self.coverage[table])
            for table, covered in tables.items()
            if table in self.coverage
        )

    def _zips(self, number: int) -> Mapping[Named, Csv] | None:
        """The single CSVs of a shard; None where it is damaged, found elsewhere."""
        scope = self.verification.scope
        try:
            data = self.archive.read(shard_path(number))
            entries = self.archive.parse_shard(number, data).entries if data else ()
        except (IntegrityError, OSError):
            return None
        return {
            (entry.table, entry.blocks): entry.members[0]
            for entry in entries
            if not entry.is_bundle and scope.has_table(entry.table) and scope.reaches(entry.blocks)
        }

    def _wanted(self, zips: Mapping[Named, Csv]) -> Iterator[Named]:
        """What the lake should have of segments that are published with all tables."""
        every = {*filter(self.verification.scope.has_table, HISTORY_TABLES)}
        tables: dict[BlockRange, set[str]] = {}
        for table, blocks in zips:
            tables.setdefault(blocks, set()).add(table)
        for blocks, published in tables.items():
            if published >= every:
                yield from ((table, blocks) for table in published if zips[table, blocks].rows)
                yield MANIFESTS, blocks

    def _has(self, table: str, blocks: BlockRange) -> bool:
        """Whether a table has a segment; nothing is said of one whose log is damaged."""
        return table not in self.coverage or any(inside([blocks], self.coverage[table]))

    def _is_due(self, blocks: BlockRange) -> bool:
        return not self.expected.numbers() or self.expected.is_due(blocks)

    def _compared(
        self,
        number: int,
        zips: Mapping[Named, Csv],
        manifests: KeptManifests,
        lacking: dict[str, set[BlockRange]],
        unpublished: set[BlockRange],
    ) -> Iterator[Finding]:
        """Hold the receipts of a shard against its ZIPs, and tables without ZIPs against them."""
        scope, expected = self.verification.scope, self.expected
        for receipt in manifests.receipts(shard_blocks(number)):
            table, blocks = receipt.table, receipt.blocks
            if not (scope.has_table(table) and scope.reaches(blocks)):
                continue
            published = zips.get((table, blocks))
            if table not in HISTORY_TABLES:
                if receipt.rows and not self._has(table, blocks):
                    lacking.setdefault(table, set()).add(blocks)
            elif published is None:
                # That of a loaded segment is missed elsewhere.
                if not expected.numbers() or not expected.is_loaded(blocks):
                    unpublished.add(blocks)
            elif published.sha256 != receipt.sha256:
                remedy = replace_in_lake(table, blocks) if self.can_publish else LAKE_RESTORE
                yield Finding(
                    Problem.DISAGREEMENT,
                    self.archive.place(f"{LAKE}/{MANIFESTS}"),
                    f"table {table} of segment {blocks} has SHA-256 {receipt.sha256} here, and "
                    f"{published.sha256} in its published ZIP",
                    Remedy(remedy.commands, remedy.note or "if warehouse and ZIP are right"),
                )

    def _not_in_lake(self, lacking: Mapping[str, set[BlockRange]]) -> Iterator[Finding]:
        remedy = LAKE_PUBLISH if self.can_publish else LAKE_RESTORE
        for run, where in run_sentences(set().union(*lacking.values())):
            tables = sorted(t for t, some in lacking.items() if any(map(run.overlaps, some)))
            names = "any table" if len(tables) == len(lacking) > 1 else ", ".join(tables)
            what = f"{where} published, and not in the lake ({names})"
            yield Finding(Problem.NOT_PUBLISHED, self.archive.place(LAKE), what, remedy)

    def _not_published(self, unpublished: set[BlockRange]) -> Iterator[Finding]:
        remedy = RESTORE
        if self.can_publish:
            remedy = LOAD_AND_PUBLISH if self.expected.numbers() else PUBLISH
        for _, where in run_sentences(unpublished):
            what = f"{where} in the lake, and not published as ZIPs"
            yield Finding(Problem.NOT_PUBLISHED, self.archive.place(LAKE), what, remedy)
