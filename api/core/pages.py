"""Reading key-ordered pages: those of several volumes with one statement, which is what costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from api.core.snapshots import Reading
from transforms.lookups.key_pages import Key, PageIndex, page_rows


@dataclass(frozen=True, slots=True)
class PageRun:
    """Pages that follow each other, of one page table in the attached file `file`."""

    file: str
    index: PageIndex
    pages: range

    @classmethod
    def between(cls, file: str, index: PageIndex, low: Key, high: Key) -> PageRun:
        """The pages among which are all rows between two keys; see `PageIndex.pages`."""
        return cls(file, index, index.pages(low, high))

    def cut(self, count: int, *, descending: bool) -> PageRun:
        """At most `count` of the pages: the first, or descending the last ones."""
        pages = self.pages[-count:] if descending else self.pages[:count]
        return PageRun(self.file, self.index, pages)

    def rest(self, count: int, *, descending: bool) -> PageRun:
        """The pages without those of `cut`."""
        pages = self.pages[:-count] if descending else self.pages[count:]
        return PageRun(self.file, self.index, pages)


def read_runs(reading: Reading, runs: Sequence[PageRun]) -> list[list[list[Any]]]:
    """The values of the rows of each run, in the order of their keys.

    They are lists: to make rows of all would cost more than to look for those that are wanted.
    """
    queries = [_run_sql(number, run) for number, run in enumerate(runs) if run.pages]
    rows_by_run: list[list[list[Any]]] = [[] for _ in runs]
    if queries:
        for number, _, body in sorted(reading.rows(" union all ".join(queries))):
            rows_by_run[number] += page_rows(body)
    return rows_by_run


def _run_sql(number: int, run: PageRun) -> str:
    first, last = run.pages[0], run.pages[-1]
    # One page by equality: the primary key then leads to its row.
    condition = f"= {first}" if first == last else f"between {first} and {last}"
    table = f"{run.file}.strata.{run.index.name}"
    return f"select {number}, page, body from {table} where page {condition}"  # noqa: S608 - ours
