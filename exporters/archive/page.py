"""The archive as pages for people: static, without scripts, made from the index alone.

The same index gives the same bytes. Links are relative, so a copy of the archive browses as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from exporters.archive.block_days import DayRows, day_rows
from exporters.archive.conditions import day_conditions
from exporters.archive.figures import Mark, coverage_bar
from exporters.archive.index import ArchiveIndex
from exporters.archive.lake_place import LAKE, LAKE_PAGE
from exporters.archive.public_sql import PUBLIC_TYPES, shown_address
from exporters.archive.revisions import REVISIONS, Revision
from exporters.archive.shards import Shard
from exporters.archive.sound_documents import OF_CHAIN
from exporters.archive.sums import Completeness, TableSums, completeness, total
from exporters.archive.templating import render
from transforms.block_range import BlockRange
from transforms.coverage import Coverage, count, difference, union

_MARKS = {"published": "published", "loaded": "loaded only", "gap": "missing"}
"""The colours of a bar, and what they mean."""


@dataclass(frozen=True, slots=True)
class TableLine:
    """A table on a chain's page: its sums, how many blocks are not published, its bar and chart."""

    name: str
    sums: TableSums
    missing: int
    bar: Sequence[Mark]
    chart: DayRows | None


_NEWEST = 50
"""How many shards a chain's page lists with what they have."""

_render = partial(render, "exporters.archive")


def home_page(indexes: Sequence[ArchiveIndex]) -> bytes:
    """The page that lists the chains of a store."""
    return _render("home.html", chains=[_chain(index) for index in indexes])


def chain_page(
    index: ArchiveIndex,
    replaced: Sequence[Revision] | None,
    address: str = "",
    signatures: Sequence[str] = (),
) -> bytes:
    """The page of one chain: how far it goes, what is missing, where everything is.

    It lists the newest shards, and has links to the others.
    `replaced` is None where the list of revisions cannot be read. `address` is where anybody reads
    the chain's folder, empty where nobody knows. `signatures` are the paths of those.
    """
    others = (*signatures, *(PUBLIC_TYPES if address else ()))
    return _render(
        "chain.html", **chain_values(index, replaced, address), here="", other_links=others
    )


def _folders(index: ArchiveIndex) -> Iterator[str]:
    """The folders of a chain, which end with a slash, and the page of the lake's files."""
    yield from (f"{table}/" for table, sums in index.tables.items() if sums.zips)
    if index.shards:
        yield "index/"
    if index.has_lake:
        yield from (LAKE_PAGE, f"{LAKE}/")


def chain_values(
    index: ArchiveIndex,
    replaced: Sequence[Revision] | None,
    address: str,
    holding: Coverage = (),
) -> dict[str, object]:
    """What the template of a chain's page lays out; `holding` are the blocks that a server has."""
    tables = index.tables
    runs = union((*holding, *(run for sums in tables.values() for run in sums.covered)))
    charts, days = day_rows(index.days), index.days
    shards = [*index.shards.values()]
    return {
        "chain_id": index.chain_id,
        "extent": completeness(tables),
        "totals": total([*tables.values()]),
        "marks": [mark for mark in _MARKS.items() if holding or mark[0] != "loaded"],
        "tables": [
            TableLine(name, sums, *_coverage(runs, sums, holding), charts.get(name))
            for name, sums in tables.items()
        ],
        "shards": shards[-_NEWEST:],
        "earlier": shards[:-_NEWEST],
        "replaced": replaced,
        "axis": BlockRange(runs[0].first, runs[-1].last) if runs else None,
        "days": (days[0].day, days[-1].day) if days else None,
        "remarks": [day for day in reversed(day_conditions(index, replaced or ())) if day.reason],
        "address": shown_address(address, index.chain_id),
        "ids": index.ids,
        "times": index.times,
        "has_lake": index.has_lake,
        "links": (
            *OF_CHAIN,
            *((REVISIONS,) if replaced or replaced is None else ()),
            *_folders(index),
        ),
    }


def shard_page(shard: Shard) -> bytes:
    """The page of one shard: every ZIP with its rows, size and hash."""
    times = {entry.blocks: entry.times for entry in shard.entries if entry.table == "blocks"}
    return _render("shard.html", shard=shard, times=times)


def files_page(title: str, paths: Iterable[str]) -> bytes:
    """A page that links files and folders."""
    return _render("files.html", title=title, paths=paths)


def _chain(
    index: ArchiveIndex,
) -> tuple[str, Completeness, tuple[str, str] | None, TableSums]:
    """Its id, how far it goes, when its first and last block were made, and what it holds."""
    return index.chain_id, completeness(index.tables), index.times, total([*index.tables.values()])


def _coverage(runs: Coverage, sums: TableSums, holding: Coverage) -> tuple[int, list[Mark]]:
    """How many blocks of a table are not published, and its bar from first to last known block."""
    if not runs:
        return 0, []
    axis = BlockRange(runs[0].first, runs[-1].last)
    unpublished = difference((axis,), sums.covered)
    layers = {
        "loaded": holding,
        "published": sums.covered,
        "gap": difference(unpublished, holding),
    }
    return count(unpublished), coverage_bar(axis, layers)
