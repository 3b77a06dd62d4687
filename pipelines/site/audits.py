"""What must be true of loaded segments before they are published. Nothing here knows Dagster.

The load has compared every table with its source already; these look at the results from the other
side, through the catalog that analysts read and the parts that are published. Each gives the
problems it finds as sentences.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby, pairwise

from exporters.exports.copies import no_other_copy
from exporters.exports.waiting import local_part
from pipelines.site.site import Site
from transforms.blocks import BlockRange, contiguous_runs, gaps_between
from transforms.duck import Connection, quote_name
from transforms.errors import IntegrityError
from transforms.tables.registry import HISTORY_TABLES, primary_key
from transforms.warehouse.receipts import Receipt
from transforms.warehouse.shapes import Extent

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What audits look at: a site, its open catalog and the segments in question, ascending.

    `receipts` are those of the segments, by table; `held` are all segments of the catalog.
    """

    site: Site
    con: Connection
    segments: Sequence[BlockRange]
    held: Sequence[BlockRange]
    receipts: Mapping[str, Sequence[Receipt]]


Audit = Callable[[Evidence, str], Iterable[str]]
"""From the evidence and a table to its problems."""


@contextmanager
def gather(site: Site, wanted: frozenset[BlockRange] | None) -> Iterator[Evidence]:
    """Open the evidence about those of the wanted segments that are loaded (None: all of them)."""
    catalog = site.warehouse.catalog()
    held = list(catalog.segments) if catalog else []
    segments = [blocks for blocks in held if wanted is None or blocks in wanted]
    receipts: dict[str, list[Receipt]] = {table: [] for table in HISTORY_TABLES}
    for receipt in site.receipts(segments):
        receipts.setdefault(receipt.table, []).append(receipt)
    extent = None
    if wanted is not None and segments:
        extent = Extent(BlockRange(segments[0].first, segments[-1].last))
    with site.warehouse.connect(extent) as con:
        yield Evidence(site, con, segments, held, receipts)


def row_problems(evidence: Evidence, table: str) -> Iterator[str]:
    """Segments that show another number of rows than their receipts."""
    receipts = evidence.receipts[table]
    if not receipts:
        return
    counted = dict(
        evidence.con.execute(
            f"select _segment, count(*) from main.{quote_name(table)} "  # noqa: S608 - quoted
            "where _segment between ? and ? group by _segment",
            [receipts[0].blocks.first, receipts[-1].blocks.first],
        ).fetchall()
    )
    for receipt in receipts:
        rows = counted.get(receipt.blocks.first, 0)
        if rows != receipt.rows:
            yield f"{receipt.segment}: {table} shows {rows} rows, its receipt {receipt.rows}"


def key_problems(evidence: Evidence, table: str) -> Iterator[str]:
    """Primary keys that stand for several rows, an example for each schema version."""
    for key, group in groupby(evidence.receipts[table], key=_key):
        alike = list(group)
        if not key:
            continue
        columns = ", ".join(map(quote_name, key))
        row = evidence.con.execute(
            # Cells that no type holds are NULL here and distinguished by their text.
            f"select _raw, {columns} from main.{quote_name(table)} "  # noqa: S608 - quoted
            "where _segment between ? and ? group by all having count(*) > 1 limit 1",
            [alike[0].blocks.first, alike[-1].blocks.first],
        ).fetchone()
        if row is not None:
            named = ", ".join(f"{name} {cell}" for name, cell in zip(key, row[1:], strict=True))
            blocks = BlockRange(alike[0].blocks.first, alike[-1].blocks.last)
            yield f"blocks {blocks}: {table} has several rows for {named}"


def byte_problems(evidence: Evidence, table: str) -> Iterator[str]:
    """Waiting parts that are not the very bytes of their source; published ones are gone.

    One that was damaged while it waited is rendered from the warehouse again. What is found sound
    here is on record, so that publishing need not inflate it once more.
    """
    for receipt in evidence.receipts[table]:
        with suppress(FileNotFoundError):
            try:
                _prove_part(evidence.site, receipt)
            except IntegrityError as damage:
                _log.warning("a waiting part is rendered from the warehouse again: %s", damage)
                yield from _not_rendered(evidence.site, receipt)


def _not_rendered(site: Site, receipt: Receipt) -> Iterator[str]:
    try:
        site.stage_part(receipt)
        _prove_part(site, receipt)
    except IntegrityError as error:
        yield f"{receipt.segment}: {error}"


def _prove_part(site: Site, receipt: Receipt) -> None:
    local_part(site.stage, receipt, site.exporter.proofs, no_other_copy)


def height_problems(evidence: Evidence, _table: str) -> Iterator[str]:
    """Segments whose table `blocks` lacks a height, repeats one, or has one of another segment."""
    if not evidence.segments:
        return
    rows = evidence.con.execute(
        "select _segment, count(*), count(distinct height), min(height), max(height) "
        "from main.blocks where _segment between ? and ? group by _segment",
        [evidence.segments[0].first, evidence.segments[-1].first],
    ).fetchall()
    found = {first: heights for first, *heights in rows}
    for blocks in evidence.segments:
        size = blocks.last - blocks.first + 1
        heights = found.get(blocks.first, [0, 0, None, None])
        if heights != [size, size, blocks.first, blocks.last]:
            yield (
                f"segment {blocks}: its table blocks has {heights[0]} rows with {heights[1]} "
                f"heights from {heights[2]} to {heights[3]}"
            )


def gap_problems(evidence: Evidence, _table: str) -> Iterator[str]:
    """Blocks that no segment holds, right before one of the segments in question."""
    starts = {blocks.first for blocks in evidence.segments}
    runs = list(contiguous_runs(evidence.held))
    following = {one.last: other.first for one, other in pairwise(runs)}
    for gap in gaps_between(runs):
        if following[gap.first - 1] in starts:
            yield f"no segment holds blocks {gap}, before block {gap.last + 1}"


def _key(receipt: Receipt) -> tuple[str, ...]:
    key = primary_key(receipt.table, receipt.segment.version)
    return key if set(key) <= set(receipt.schema.names) else ()
