"""What must be true of loaded segments before they are published. Nothing here knows Dagster.

The load has compared every table with its source already; these look at the results from the other
side, through the catalog that analysts read and the parts that are published. Each gives the
problems it finds, a sentence with the segment that it is about. `CHECKS` is the list of them, for
every way to publish.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby, pairwise

from exporters.exports.copies import no_other_copy
from exporters.exports.staged_zips import staged_part
from pipelines.site.site import Site
from transforms.block_range import BlockRange, contiguous_runs, gaps_between
from transforms.duck import Connection, quote_name, quote_text
from transforms.errors import IntegrityError
from transforms.tables.registry import HISTORY_TABLES, primary_key
from transforms.warehouse.catalog import Catalog
from transforms.warehouse.receipts import Receipt

_log = logging.getLogger(__name__)
_NOTHING = BlockRange(0, 0)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What audits look at: a site, its open catalog and the segments in question, ascending.

    `receipts` are those of the segments, by table; `surrounding` are the segments of the catalog
    from the volume before them on.
    """

    site: Site
    con: Connection
    segments: Sequence[BlockRange]
    surrounding: Sequence[BlockRange]
    receipts: Mapping[str, Sequence[Receipt]]


@dataclass(frozen=True, slots=True)
class AuditFailure:
    """What is wrong with a segment, as a sentence that names it."""

    blocks: BlockRange
    what: str


Audit = Callable[[Evidence, str], Iterable[AuditFailure]]
"""From the evidence and a table to its problems."""


@contextmanager
def gather(site: Site, selection: frozenset[BlockRange] | None) -> Iterator[Evidence]:
    """Open the evidence about those of the wanted segments that are loaded (None: all of them).

    Costs what these segments cost, whatever else is loaded.
    """
    catalog = site.loaded_catalog()
    surrounding = list(_around(catalog, selection).segments)
    segments = [blocks for blocks in surrounding if selection is None or blocks in selection]
    receipts: dict[str, list[Receipt]] = {table: [] for table in HISTORY_TABLES}
    for receipt in site.receipts(segments):
        receipts.setdefault(receipt.table, []).append(receipt)
    hull = BlockRange(segments[0].first, segments[-1].last) if segments else _NOTHING
    with site.warehouse.stored_tables(hull) as con:
        yield Evidence(site, con, segments, surrounding, receipts)


def _around(catalog: Catalog, selection: frozenset[BlockRange] | None) -> Catalog:
    """The catalog with no more volumes than have these segments, and the one before them."""
    if selection is None:
        return catalog
    if not selection:
        return catalog.of_volumes(())
    hull = BlockRange(min(selection).first, max(blocks.last for blocks in selection))
    before = [volume for volume in catalog.history() if volume.blocks.last < hull.first]
    return catalog.of_volumes([*before[-1:], *catalog.volumes_over(hull)])


def row_problems(evidence: Evidence, table: str) -> Iterator[AuditFailure]:
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
            what = f"{receipt.segment}: {table} shows {rows} rows, its receipt {receipt.rows}"
            yield AuditFailure(receipt.blocks, what)


def key_problems(evidence: Evidence, table: str) -> Iterator[AuditFailure]:
    """Primary keys of several rows of one segment, an example for each segment that has such rows.

    A key that several segments have is a row that was written again: the format allows it.
    """
    for key, group in groupby(evidence.receipts[table], key=_key):
        alike = {receipt.blocks.first: receipt for receipt in group}
        if not key:
            continue
        columns = ", ".join(map(quote_name, key))
        # Cells that no type holds are NULL here and distinguished by their text.
        raw_columns = {name for receipt in alike.values() for name in receipt.raw_cells}
        texts = "".join(f", _raw[{quote_text(name)}]" for name in key if name in raw_columns)
        twice = (
            f"from main.{quote_name(table)} where _segment between {min(alike)} and {max(alike)} "
            f"group by _segment, {columns}{texts} having count(*) > 1"
        )
        rows = evidence.con.execute(
            f"select _segment, {columns} {twice} "
            f"qualify row_number() over (partition by _segment order by {columns}) = 1 "
            "order by _segment"
        ).fetchall()
        for segment, *cells in rows:
            if receipt := alike.get(segment):
                label = ", ".join(f"{name} {cell}" for name, cell in zip(key, cells, strict=True))
                what = f"{receipt.segment}: {table} has several rows for {label}"
                yield AuditFailure(receipt.blocks, what)


def byte_problems(evidence: Evidence, table: str) -> Iterator[AuditFailure]:
    """Staged ZIPs that are not the very bytes of their source; published ones are gone.

    One that was damaged while it waited is rendered from the warehouse again. What is found sound
    here is on record, so that publishing need not inflate it once more.
    """
    for receipt in evidence.receipts[table]:
        with suppress(FileNotFoundError):
            try:
                _prove_part(evidence.site, receipt)
            except IntegrityError as damage:
                _log.warning("a staged ZIP is rendered from the warehouse again: %s", damage)
                yield from _not_rendered(evidence.site, receipt)


def _not_rendered(site: Site, receipt: Receipt) -> Iterator[AuditFailure]:
    try:
        site.stage_part(receipt)
        _prove_part(site, receipt)
    except IntegrityError as error:
        yield AuditFailure(receipt.blocks, f"{receipt.segment}: {error}")


def _prove_part(site: Site, receipt: Receipt) -> None:
    staged_part(site.stage, receipt, site.exporter.proofs, no_other_copy)


def height_problems(evidence: Evidence, _table: str) -> Iterator[AuditFailure]:
    """Segments whose table `blocks` lacks a height, repeats one, or has one of another segment."""
    if not evidence.segments:
        return
    rows = evidence.con.execute(
        "select _segment, count(*), count(distinct height), min(height), max(height) "
        "from main.blocks where _segment between ? and ? group by _segment",
        [evidence.segments[0].first, evidence.segments[-1].first],
    ).fetchall()
    summaries = {first: heights for first, *heights in rows}
    for blocks in evidence.segments:
        size = blocks.last - blocks.first + 1
        heights = summaries.get(blocks.first, [0, 0, None, None])
        if heights != [size, size, blocks.first, blocks.last]:
            yield AuditFailure(
                blocks,
                f"segment {blocks}: its table blocks has {heights[0]} rows with {heights[1]} "
                f"heights from {heights[2]} to {heights[3]}",
            )


def gap_problems(evidence: Evidence, _table: str) -> Iterator[AuditFailure]:
    """Blocks that no segment holds, right before one of the segments in question."""
    starts = {blocks.first: blocks for blocks in evidence.segments}
    runs = list(contiguous_runs(evidence.surrounding))
    following = {before.last: after.first for before, after in pairwise(runs)}
    for gap in gaps_between(runs):
        behind = starts.get(following[gap.first - 1])
        if behind is not None:
            yield AuditFailure(
                behind, f"no segment holds blocks {gap}, before block {gap.last + 1}"
            )


def _key(receipt: Receipt) -> tuple[str, ...]:
    key = primary_key(receipt.table, receipt.segment.version)
    return key if set(key) <= set(receipt.schema.names) else ()


@dataclass(frozen=True, slots=True)
class Check:
    """An audit with its name and its tables. A segment that fails a blocking one stays here."""

    name: str
    audit: Audit
    tables: Sequence[str] = HISTORY_TABLES
    blocking: bool = True


CHECKS = (
    Check("rows_equal_receipt", row_problems),
    Check("bytes_equal_source", byte_problems),
    Check("primary_keys_unique", key_problems),
    Check("heights_contiguous", height_problems, ("blocks",)),
    # A gap does not make what lies behind it wrong: that is published, and the index lists the gap.
    Check("no_gap_before", gap_problems, ("blocks",), blocking=False),
)
"""Every check. Those of the heights belong to the table `blocks` alone."""


def found_by(evidence: Evidence, check: Check, table: str) -> tuple[AuditFailure, ...]:
    """What a check finds in a table; kept for the next one who asks the same of this site."""
    cache = kept_problems(evidence.site, evidence.segments)
    key = (check.name, table)
    if key not in cache:
        cache[key] = tuple(check.audit(evidence, table))
    return cache[key]


def kept_problems(
    site: Site, segments: Sequence[BlockRange]
) -> dict[tuple[str, str], tuple[AuditFailure, ...]]:
    """What was found already in these segments, as they are loaded now, by check and table."""
    document = site.warehouse.document()
    key = (document.commit if document else "", tuple(segments))
    if key not in site.audited:
        site.audited.clear()
    return site.audited.setdefault(key, {})
