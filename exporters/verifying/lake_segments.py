"""The segments of the lake against those of the published ZIPs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from exporters.archive.archive import Archive
from exporters.archive.entries import Csv
from exporters.archive.index import ShardSummary
from exporters.archive.lake_place import LAKE, RECEIPTS
from exporters.archive.shards import shard_blocks, shard_number, shard_path
from exporters.archive.sound_documents import stored_shards
from exporters.verifying.expected import Expected, Named
from exporters.verifying.kept_receipts import KeptReceipts
from transforms.block_range import BlockRange
from transforms.coverage import union
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

_EVERYTHING = BlockRange(0, 2**63 - 1)

Shares = Mapping[str, Sequence[BlockRange]]
"""What each table of history, and the receipts, of the lake hold; none whose log is damaged."""


@dataclass(slots=True)
class SegmentsCheck:
    """What is only in one of the lake and the published ZIPs, and what both say differently.

    `receipts` is None where only logs are read. In memory are the entries of one shard at a time.
    """

    archive: Archive
    verification: Verification
    expected: Expected
    can_publish: bool
    receipts: KeptReceipts | None
    _lacking: dict[str, set[BlockRange]] = field(default_factory=dict)
    _unpublished: set[Named] = field(default_factory=set)

    def findings(self, shares: Shares) -> Iterator[Finding]:
        """Compare; what is found in only one of them may be under way and is kept, see `rest`."""
        coverage = {table: union(blocks) for table, blocks in shares.items()}
        lines = self._lines() if self.receipts is None else {}
        for number in self._numbers(shares.get(RECEIPTS, ())):
            if self.verification.is_over():
                return
            if number in lines and _is_covered(ShardSummary.parse(lines[number]), coverage):
                continue
            zips = self._zips(number)
            if zips is not None:
                self._note_lacking(number, zips, coverage)
                if self.receipts is not None:
                    yield from self._compare(number, zips, self.receipts, coverage)

    def _lines(self) -> Mapping[int, str]:
        """What the index says of shards of which it says what is right."""
        place, indexed = self.archive.place, self.verification.indexed
        if not indexed:
            return {}
        try:
            lines = self.archive.index().lines
        except (IntegrityError, OSError):
            return {}
        return {n: line for n, line in lines.items() if place(shard_path(n)) in indexed}

    def _numbers(self, receipts: Iterable[BlockRange]) -> list[int]:
        """The shards of what is published, and those that the lake's segments would be in."""
        try:
            numbers = {*stored_shards(self.archive)}
        except ConfigError:
            numbers = set()
        for blocks in receipts if self.receipts is not None else ():
            last = shard_number(BlockRange(blocks.last, blocks.last))
            numbers.update(range(shard_number(blocks), last + 1))
        scope = self.verification.scope.blocks
        return sorted(n for n in numbers if scope is None or shard_blocks(n).first <= scope.last)

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

    def _note_lacking(
        self, number: int, zips: Mapping[Named, Csv], coverage: Mapping[str, Sequence[BlockRange]]
    ) -> None:
        tables: dict[BlockRange, set[str]] = {}
        for table, blocks in zips:
            tables.setdefault(blocks, set()).add(table)
        scope = self.verification.scope
        every = {table for table in HISTORY_TABLES if scope.has_table(table)}
        receipts = None
        for blocks, published in tables.items():
            if published < every:  # not all of them, unless it has no more
                receipts = (
                    self.expected.receipts(shard_blocks(number)) if receipts is None else receipts
                )
                loaded_tables = {table for table, segment in receipts if segment == blocks}
                if not loaded_tables or not loaded_tables <= published:
                    continue
            with_rows = {table for table in published if zips[table, blocks].rows}
            for table in (*sorted(with_rows), RECEIPTS):
                self._note(table, blocks, coverage)

    def _note(
        self, table: str, blocks: BlockRange, coverage: Mapping[str, Sequence[BlockRange]]
    ) -> None:
        """Keep that a table lacks a segment, if it does and is checked."""
        if not _holds(coverage.get(table, (_EVERYTHING,)), blocks) and self._is_due(blocks):
            self._lacking.setdefault(table, set()).add(blocks)

    def _is_due(self, blocks: BlockRange) -> bool:
        return not self.expected.numbers() or self.expected.is_due(blocks)

    def _is_amiss(self, blocks: BlockRange) -> bool:
        """Whether ZIPs should be there; that of a loaded segment is missed elsewhere."""
        return not self.expected.numbers() or not self.expected.is_loaded(blocks)

    def _compare(
        self,
        number: int,
        zips: Mapping[Named, Csv],
        receipts: KeptReceipts,
        coverage: Mapping[str, Sequence[BlockRange]],
    ) -> Iterator[Finding]:
        scope = self.verification.scope
        for table, blocks, rows, sha256 in receipts.said(shard_blocks(number)):
            if not (scope.has_table(table) and scope.reaches(blocks)):
                continue
            published = zips.get((table, blocks))
            if table not in HISTORY_TABLES:
                if rows:
                    self._note(table, blocks, coverage)
            elif published is None:
                if self._is_amiss(blocks):
                    self._unpublished.add((table, blocks))
            elif published.sha256 != sha256:
                remedy = replace_in_lake(table, blocks) if self.can_publish else LAKE_RESTORE
                yield Finding(
                    Problem.DISAGREEMENT,
                    self.archive.place(f"{LAKE}/{RECEIPTS}"),
                    f"table {table} of segment {blocks} has SHA-256 {sha256} here, and "
                    f"{published.sha256} in its published ZIP",
                    Remedy(remedy.commands, remedy.note or "if warehouse and ZIP are right"),
                )

    def rest(self, shares: Shares) -> Iterator[Finding]:
        """Yield what is only in one of them, and still so: `shares` are those of now."""
        coverage = {table: union(blocks) for table, blocks in shares.items()}
        lacking = {
            table: {segment for segment in blocks if not _holds(coverage.get(table, ()), segment)}
            for table, blocks in self._lacking.items()
        }
        missing = set().union(*lacking.values())
        remedy = LAKE_PUBLISH if self.can_publish else LAKE_RESTORE
        for run, where in run_sentences(missing):
            tables = sorted(t for t, some in lacking.items() if any(map(run.overlaps, some)))
            names = "any table" if len(tables) == len(lacking) > 1 else ", ".join(tables)
            what = f"{where} published, and not in the lake ({names})"
            yield Finding(Problem.NOT_PUBLISHED, self._place(), what, remedy)
        yield from self._not_published()

    def _not_published(self) -> Iterator[Finding]:
        still = set()
        for number in sorted({shard_number(blocks) for _, blocks in self._unpublished}):
            zips = self._zips(number)
            if zips is not None:
                mine = (key for key in self._unpublished if shard_number(key[1]) == number)
                still |= {key[1] for key in mine if key not in zips}
        remedy = RESTORE
        if self.can_publish:
            remedy = LOAD_AND_PUBLISH if self.expected.numbers() else PUBLISH
        for _, where in run_sentences(still):
            what = f"{where} in the lake, and not published as ZIPs"
            yield Finding(Problem.NOT_PUBLISHED, self._place(), what, remedy)

    def _place(self) -> str:
        return self.archive.place(LAKE)


def _is_covered(summary: ShardSummary, coverage: Mapping[str, Sequence[BlockRange]]) -> bool:
    """Whether the lake has all blocks of a shard, in each table that has rows in it."""
    tables = [(table, sums.covered) for table, sums in summary.tables.items() if sums.rows]
    receipts = union(run for sums in summary.tables.values() for run in sums.covered)
    return all(
        _holds(coverage.get(table, (_EVERYTHING,)), run)
        for table, runs in (*tables, (RECEIPTS, receipts))
        for run in runs
    )


def _holds(runs: Sequence[BlockRange], blocks: BlockRange) -> bool:
    """Whether one of the runs, which ascend without touching, holds all of these blocks."""
    before = bisect_right(runs, blocks.first, key=lambda run: run.first) - 1
    return before >= 0 and blocks.last <= runs[before].last
