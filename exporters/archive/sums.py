"""What an archive holds of each table, how far it is complete, its chain of ids. Pure values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from exporters.archive.entries import Entry, Json, range_json, range_of
from transforms.block_range import BlockRange
from transforms.coverage import Coverage, difference, intersection, union
from transforms.segments.id_chain import IdChain, IdRun, id_chain
from transforms.tables.registry import HISTORY_TABLES

COUNTS = ("zips", "rows", "bytes", "bundles", "bundle_bytes")
"""The fields of sums that are numbers."""
COVERAGES = ("covered", "bundled")
"""The fields of sums that are runs of blocks."""


@dataclass(frozen=True, slots=True)
class TableSums:
    """What is there of one table. Rows and bytes are those of single-segment ZIPs.

    Bundles repeat these rows, so they are counted apart. `covered` counts both kinds, `bundled`
    the bundles only.
    """

    zips: int = 0
    rows: int = 0
    bytes: int = 0
    bundles: int = 0
    bundle_bytes: int = 0
    covered: Coverage = ()
    bundled: Coverage = ()

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers, in their order."""
        return (self.zips, self.rows, self.bytes, self.bundles, self.bundle_bytes)

    def to_json(self) -> Json:
        """The sums as JSON values."""
        coverages = (self.covered, self.bundled)
        runs = {n: [*map(range_json, c)] for n, c in zip(COVERAGES, coverages, strict=True)}
        return {**dict(zip(COUNTS, self.counts, strict=True)), **runs}

    @classmethod
    def parse(cls, sums: Json, usual: Mapping[str, Coverage]) -> TableSums:
        """The sums that `to_json` wrote; `usual` are the blocks of those that do not say theirs."""
        runs = (coverage_of(sums[n]) if n in sums else usual[n] for n in COVERAGES)
        return cls(*(sums[name] for name in COUNTS), *runs)


def coverage_of(runs: Iterable[Json]) -> Coverage:
    """The runs of blocks that JSON has."""
    return tuple(map(range_of, runs))


def total(parts: Iterable[TableSums]) -> TableSums:
    """The sums over several shards of one table."""
    sums = (TableSums(), *parts)
    covered = union(run for part in sums for run in part.covered)
    bundled = union(run for part in sums for run in part.bundled)
    columns = zip(*(part.counts for part in sums), strict=True)
    zips, rows, size, bundles, bundle_bytes = map(sum, columns)
    return TableSums(zips, rows, size, bundles, bundle_bytes, covered, bundled)


def sums_of(entries: Iterable[Entry]) -> TableSums:
    """The sums over the entries of one table."""
    zips = list(entries)
    singles = [entry for entry in zips if not entry.is_bundle]
    bundles = [entry for entry in zips if entry.is_bundle]
    return TableSums(
        len(singles),
        sum(entry.rows for entry in singles),
        sum(entry.bytes for entry in singles),
        len(bundles),
        sum(entry.bytes for entry in bundles),
        union(entry.blocks for entry in zips),
        union(entry.blocks for entry in bundles),
    )


@dataclass(frozen=True, slots=True)
class Totals:
    """What is there of several tables: ZIPs and bytes with bundles, rows counted once."""

    zips: int
    rows: int
    bytes: int

    @classmethod
    def of(cls, counts: Iterable[Sequence[int]]) -> Totals:
        """Add the counts of tables up, which are in the order of `TableSums`."""
        columns = zip((0,) * len(COUNTS), *counts, strict=True)
        zips, rows, size, bundles, bundle_bytes = map(sum, columns)
        return cls(zips + bundles, rows, size + bundle_bytes)


@dataclass(frozen=True, slots=True)
class Completeness:
    """How far an archive goes. `span` is the run from its first to its last block."""

    span: BlockRange | None
    complete: Coverage
    gaps: Coverage

    @property
    def until(self) -> int | None:
        """The last block up to which nothing is missing, from the first one on."""
        if self.span and self.complete and self.complete[0].first == self.span.first:
            return self.complete[0].last
        return None


def completeness(tables: Mapping[str, TableSums]) -> Completeness:
    """Where all 15 tables are there, and where one of them is missing."""
    covered = union(run for sums in tables.values() for run in sums.covered)
    if not covered:
        return Completeness(None, (), ())
    span = BlockRange(covered[0].first, covered[-1].last)
    each = (tables[table].covered if table in tables else () for table in HISTORY_TABLES)
    whole: Coverage = (span,)
    complete = reduce(intersection, each, whole)
    return Completeness(span, complete, difference(whole, complete))


def entries_chain(entries: Iterable[Entry]) -> IdChain:
    """How far the chain of ids is unbroken over the segments of these ZIPs, of any tables.

    A segment whose ZIPs name different ids contradicts itself.
    """
    runs = {segment.id_run for entry in entries for segment in entry.segments}
    return id_chain(sorted(runs, key=lambda run: (run.first, run.segment_id, run.previous_id)))


def id_run_json(run: IdRun) -> Json:
    """A run of segments with its ends, from which it can be joined to those beside it."""
    return {
        "first": range_json(run.first),
        "last": range_json(run.last),
        "id": run.segment_id,
        "previous_id": run.previous_id,
    }


def id_run_of(run: Json) -> IdRun:
    """The run that `id_run_json` wrote."""
    return IdRun(range_of(run["first"]), range_of(run["last"]), run["id"], run["previous_id"])
