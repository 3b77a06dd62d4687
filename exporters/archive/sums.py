"""What an archive holds of each table, how far it is complete, its chain of ids. Pure values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

from exporters.archive.entries import Entry, Json, range_json, range_of
from transforms.block_range import BlockRange
from transforms.coverage import Coverage, difference, intersection, union
from transforms.segments.id_chain import IdChain, IdRun, id_chain
from transforms.tables.registry import HISTORY_TABLES


@dataclass(frozen=True, slots=True)
class TableSums:
    """What is there of one table: the number of its ZIPs, their rows and bytes, their blocks."""

    zips: int = 0
    rows: int = 0
    bytes: int = 0
    covered: Coverage = ()

    def to_json(self) -> Json:
        """The sums as JSON values."""
        covered = [*map(range_json, self.covered)]
        return {"zips": self.zips, "rows": self.rows, "bytes": self.bytes, "covered": covered}

    @classmethod
    def parse(cls, sums: Json, usual: Coverage = ()) -> TableSums:
        """The sums that `to_json` wrote; where they say no blocks, these are the `usual` ones."""
        covered = tuple(map(range_of, sums["covered"])) if "covered" in sums else usual
        return cls(sums["zips"], sums["rows"], sums["bytes"], covered)

    @classmethod
    def of(cls, entries: Collection[Entry]) -> TableSums:
        """The sums over entries."""
        rows, size = sum(entry.rows for entry in entries), sum(entry.bytes for entry in entries)
        return cls(len(entries), rows, size, union(entry.blocks for entry in entries))


def total(parts: Collection[TableSums]) -> TableSums:
    """The sums over several shards of one table, or several tables."""
    return TableSums(
        sum(part.zips for part in parts),
        sum(part.rows for part in parts),
        sum(part.bytes for part in parts),
        union(run for part in parts for run in part.covered),
    )


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
    runs = {entry.segment.id_run for entry in entries}
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
