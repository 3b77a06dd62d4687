"""`conditions.json` of a chain: for each UTC day whether its data is available, and why not.

The words are those of Databento's API. A day is *pending* that has the newest block, as more of it
may come; *missing*, if none of it is published; *degraded*, if a table lacks some of its blocks;
otherwise *available*, also with files that were replaced, as those are right now. It follows from
the index and the revisions.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum

from exporters.archive.block_days import BlockDay
from exporters.archive.entries import Json
from exporters.archive.index import ArchiveIndex
from exporters.archive.json_text import FORMAT, written
from exporters.archive.revisions import Revision
from exporters.archive.sums import completeness
from exporters.zip_names import parse_zip_name
from transforms.block_range import BlockRange
from transforms.coverage import Coverage, difference, intersection, union

# Days between two days on which segments begin or end: one senseless time could make millions.
_MOST_BETWEEN, _MOST_DAYS = 1_000, 10_000
_MOST_NAMED = 3  # tables, runs of blocks, or replacements that a reason names
_DAY = timedelta(days=1)


class Condition(StrEnum):
    """What Databento's API calls the states of a day's data."""

    AVAILABLE = "available"
    DEGRADED = "degraded"
    PENDING = "pending"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class DayCondition:
    """A UTC day: its condition, its blocks, when a file of it was last replaced, and why."""

    day: date
    condition: Condition
    blocks: BlockRange | None
    last_modified: datetime | None
    reason: str | None


def conditions_json(chain_id: str, days: Iterable[DayCondition]) -> bytes:
    """The document over a chain's days."""
    return written({"format": FORMAT, "chain_id": chain_id, "days": list(map(_day_json, days))})


def day_conditions(index: ArchiveIndex, replaced: Sequence[Revision]) -> list[DayCondition]:
    """The days of all blocks whose times are known, and days between these, ascending."""
    reaches = _reaches(index)
    span = completeness(index.tables).span
    if span is None or not reaches:
        return []
    holes, changes = _Holes.of(index, span), _replacements(reaches, replaced)
    rows = [_row(reach, holes, changes.get(reach.day, [])) for reach in reaches]
    begins = (n for n, row in enumerate(rows) if row.blocks and row.blocks.first == span.first)
    ends = [n for n, row in enumerate(rows) if row.blocks and row.blocks.last == span.last]
    first, last = next(begins, 0), ends[-1] if ends else -1
    if span.first > 1:
        rows[first] = _with_reason(
            rows[first], Condition.DEGRADED, f"begins with block {span.first}"
        )
    made = index.times[1] if index.times else ""
    # Times need not ascend: that of another block says nothing here.
    made = f", made {made}" if made.startswith(rows[last].day.isoformat()) else ""
    newest = f"newest block {span.last}{made}"
    rows[last] = _with_reason(rows[last], Condition.PENDING, newest)
    return rows


@dataclass(frozen=True, slots=True)
class _Reach:
    """A day, the blocks of its segments, and `reach`: those and missing ones that may be of it."""

    day: date
    blocks: BlockRange | None
    reach: BlockRange | None


def _reaches(index: ArchiveIndex) -> list[_Reach]:
    """The days that have blocks, and those between them, unless these are too many."""
    span, known = completeness(index.tables).span, index.days
    if span is None or not known:
        return []
    ends = (*known[1:], None)
    rows: list[_Reach] = []
    free = _MOST_DAYS
    for before, item, after in zip((None, *known), known, ends, strict=False):
        first = min(item.blocks.first, before.blocks.last + 1 if before else span.first)
        last = max(item.blocks.last, after.blocks.first - 1 if after else span.last)
        days = (item.day - before.day).days - 1 if before else 0
        if before and days <= min(free, _MOST_BETWEEN):
            free -= days
            rows += _between(before, item)
        rows.append(_Reach(item.day, item.blocks, BlockRange(first, last)))
    return rows


def _between(before: BlockDay, after: BlockDay) -> Iterator[_Reach]:
    """The days on which no segment begins or ends: inside one, in a gap, or without any block."""
    first, last = after.blocks.first, before.blocks.last
    inside = BlockRange(first, last) if first <= last else None
    outside = BlockRange(last + 1, first - 1) if last + 1 < first else None
    for number in range(1, (after.day - before.day).days):
        yield _Reach(before.day + number * _DAY, inside, inside or outside)


@dataclass(frozen=True, slots=True)
class _Holes:
    """What is not there: blocks that some table lacks, by table, and blocks that all lack."""

    some: Coverage
    tables: Mapping[str, Coverage]
    every: Coverage

    @classmethod
    def of(cls, index: ArchiveIndex, span: BlockRange) -> _Holes:
        lacking = {name: difference((span,), sums.covered) for name, sums in index.tables.items()}
        covered = union(run for sums in index.tables.values() for run in sums.covered)
        some = union(run for runs in lacking.values() for run in runs)
        return cls(some, lacking, difference((span,), covered))

    def reason(self, runs: Coverage) -> str:
        """Which blocks of which tables are missing; all tables are not named."""
        named = [f"{run.first} to {run.last}" for run in runs]
        blocks = f"missing: blocks {_listed(named, 'more runs')}"
        tables = [name for name, lacking in self.tables.items() if _inside(lacking, runs)]
        return blocks if len(tables) == len(self.tables) else f"{blocks} of {_listed(tables)}"


def _row(reach: _Reach, holes: _Holes, changes: Sequence[Revision]) -> DayCondition:
    runs = (reach.reach,) if reach.reach else ()
    missing = _inside(holes.some, runs)
    reasons = [holes.reason(missing)] if missing else []
    if runs and _inside(holes.every, runs) == runs:
        condition = Condition.MISSING
    else:
        condition = Condition.DEGRADED if missing else Condition.AVAILABLE
    if not missing and reach.blocks is None:
        reasons.append("its blocks have no times" if runs else "no block was made")
    reasons += _change_reasons(changes)
    last_modified = max((event.at.astimezone(UTC) for event in changes), default=None)
    return DayCondition(
        reach.day, condition, reach.blocks, last_modified, "; ".join(reasons) or None
    )


def _with_reason(row: DayCondition, condition: Condition, reason: str) -> DayCondition:
    reasons = "; ".join(filter(None, (reason, row.reason)))
    return DayCondition(row.day, condition, row.blocks, row.last_modified, reasons)


def _inside(coverage: Coverage, runs: Coverage) -> Coverage:
    """What lies in both, where `runs` is short and `coverage` may be long."""
    if not runs:
        return ()
    start = bisect_left(coverage, runs[0].first, key=lambda run: run.last)
    stop = bisect_right(coverage, runs[-1].last, key=lambda run: run.first)
    return intersection(coverage[start:stop], runs)


def _replacements(
    reaches: Sequence[_Reach], replaced: Iterable[Revision]
) -> Mapping[date, list[Revision]]:
    """The replaced files by day: a file of several days is one of each."""
    days = [(row.day, row.blocks) for row in reaches if row.blocks]
    changes: dict[date, list[Revision]] = {}
    for event in replaced:
        name = parse_zip_name(event.path.rpartition("/")[2])
        if name is None:
            continue
        start = bisect_left(days, name.blocks.first, key=lambda day: day[1].last)
        stop = bisect_right(days, name.blocks.last, key=lambda day: day[1].first)
        for day, _ in days[start:stop]:
            changes.setdefault(day, []).append(event)
    return changes


def _change_reasons(changes: Iterable[Revision]) -> list[str]:
    """What was replaced and why, the newest first: one for each time and reason."""
    tables: dict[tuple[datetime, str], dict[str, None]] = {}
    for event in changes:
        table = event.path.partition("/")[0]
        tables.setdefault((event.at, event.reason), {})[table] = None
    texts = [
        f"replaced {at.astimezone(UTC):%Y-%m-%d}: {_listed(list(names))} ({reason})"
        for (at, reason), names in sorted(tables.items(), reverse=True)
    ]
    more = len(texts) - _MOST_NAMED
    return texts[:_MOST_NAMED] + ([f"{more} earlier"] if more > 0 else [])


def _listed(names: Sequence[str], more: str = "more") -> str:
    text = ", ".join(names[:_MOST_NAMED])
    return text if len(names) <= _MOST_NAMED else f"{text} and {len(names) - _MOST_NAMED} {more}"


def _day_json(row: DayCondition) -> Json:
    blocks = row.blocks
    at = row.last_modified and row.last_modified.isoformat(timespec="seconds")
    return {
        "date": row.day.isoformat(),
        "condition": row.condition,
        "from": blocks.first if blocks else None,
        "to": blocks.last if blocks else None,
        "last_modified": at and at.replace("+00:00", "Z"),
        "reason": row.reason,
    }
