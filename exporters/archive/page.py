"""The archive as pages for people: static, without scripts, made from the index alone.

The same index gives the same bytes. Links are relative, so a copy of the archive browses as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from exporters.archive.coverage import difference
from exporters.archive.figures import Mark, coverage_bar
from exporters.archive.index import ArchiveIndex, ShardSummary
from exporters.archive.ledger import Replacement
from exporters.archive.shards import Shard, shard_path
from exporters.archive.sums import Completeness, TableSums, Totals, completeness, totals
from exporters.archive.templating import render
from transforms.blocks import BlockRange

_render = partial(render, "exporters.archive")


def home_page(indexes: Sequence[ArchiveIndex]) -> bytes:
    """The page that lists the chains of a store."""
    return _render("home.html", chains=[_chain(index) for index in indexes])


def chain_page(index: ArchiveIndex, replaced: Sequence[Replacement]) -> bytes:
    """The page of one chain: how far it goes, what is missing, where everything is."""
    tables = index.tables
    extent = completeness(tables)
    return _render(
        "chain.html",
        chain_id=index.chain_id,
        extent=extent,
        totals=totals(tables.values()),
        tables=[(name, sums, *_coverage(extent, sums)) for name, sums in tables.items()],
        shards=[_shard(summary) for summary in index.shards],
        replaced=replaced,
    )


def shard_page(shard: Shard) -> bytes:
    """The page of one shard: every ZIP with its rows, size and hash."""
    return _render("shard.html", shard=shard)


def _chain(index: ArchiveIndex) -> tuple[str, Completeness, Totals]:
    """Its id, how far it goes and what it holds."""
    tables = index.tables
    return index.chain_id, completeness(tables), totals(tables.values())


def _coverage(extent: Completeness, sums: TableSums) -> tuple[int, list[Mark]]:
    """How many gaps a table has, and its bar."""
    if extent.held is None:
        return 0, []
    whole = (extent.held,)
    gaps = difference(whole, sums.covered)
    return len(gaps), coverage_bar(extent.held, {"held": whole, "gap": gaps})


def _shard(summary: ShardSummary) -> tuple[BlockRange, str, str, Totals]:
    """Its blocks, its path without an ending, its hash and what it holds."""
    path = shard_path(summary.number).removesuffix(".json")
    return summary.blocks, path, summary.sha256, totals(summary.tables.values())
