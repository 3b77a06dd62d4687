"""What must hold of loaded segments before they are published; each finding is a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from transforms.duck import Connection, quote_name, read_only_connection
from transforms.errors import RangeError
from transforms.receipts import Receipt
from transforms.registry import HISTORY_TABLES, primary_key
from transforms.segments import BlockRange
from transforms.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """Something that does not hold of one table of one segment."""

    blocks: BlockRange
    table: str
    problem: str

    def __str__(self) -> str:
        return f"segment {self.blocks}, table {self.table}: {self.problem}"


def check_rows(warehouse: Warehouse, segments: Iterable[BlockRange]) -> Iterator[CheckFinding]:
    """Find tables of which a volume holds another number of rows than the receipt says."""
    for con, receipts in _by_volume(warehouse, segments):
        counts = {
            (table, first): rows
            for table in sorted({receipt.table for receipt in receipts})
            for first, rows in con.execute(
                f"select _segment, count(*) from {quote_name(table)} group by all"  # noqa: S608
            ).fetchall()
        }
        for receipt in receipts:
            rows = counts.get((receipt.table, receipt.blocks.first), 0)
            if rows != receipt.rows:
                problem = f"the volume holds {rows} rows, the receipt says {receipt.rows}"
                yield CheckFinding(receipt.blocks, receipt.table, problem)


def check_keys(warehouse: Warehouse, segments: Iterable[BlockRange]) -> Iterator[CheckFinding]:
    """Find primary keys that occur twice in one segment."""
    for con, receipts in _by_volume(warehouse, segments):
        keyed: dict[tuple[str, tuple[str, ...]], list[BlockRange]] = {}
        for receipt in receipts:
            key = _comparable_key(receipt)
            if key:
                keyed.setdefault((receipt.table, key), []).append(receipt.blocks)
        for (table, key), held in keyed.items():
            names = ", ".join(map(quote_name, ("_segment", *key)))
            firsts = {blocks.first: blocks for blocks in held}
            repeated = con.execute(
                f"select _segment, count(*) from (select {names} from {quote_name(table)} "  # noqa: S608
                f"where _segment in ({', '.join(map(str, firsts))}) "
                "group by all having count(*) > 1) group by all order by all"
            ).fetchall()
            for first, twice in repeated:
                problem = f"{twice} primary keys ({', '.join(key)}) occur more than once"
                yield CheckFinding(firsts[first], table, problem)


def _comparable_key(receipt: Receipt) -> tuple[str, ...]:
    """The primary key of a history table, if all of it is in typed columns."""
    if receipt.table not in HISTORY_TABLES:
        return ()
    key = primary_key(receipt.table, receipt.segment.version)
    # A cell kept as text is NULL in its typed column, so such rows cannot be compared.
    typed = set(receipt.schema.names) - set(receipt.raw_cells)
    return key if set(key) <= typed else ()


def check_heights(warehouse: Warehouse, segments: Iterable[BlockRange]) -> Iterator[CheckFinding]:
    """Find segments whose `blocks` table is not exactly one row per height."""
    for con, receipts in _by_volume(warehouse, segments):
        counted = {
            first: facts
            for first, *facts in con.execute(
                "select _segment, count(*), count(distinct height), min(height), max(height) "
                "from blocks group by all"
            ).fetchall()
        }
        for receipt in receipts:
            if receipt.table != "blocks":
                continue
            blocks = receipt.blocks
            size = blocks.last - blocks.first + 1
            rows, distinct, low, high = counted.get(blocks.first, (0, 0, None, None))
            if (rows, distinct, low, high) != (size, size, blocks.first, blocks.last):
                problem = (
                    f"{rows} rows with {distinct} heights from {low} to {high} "
                    f"where {size} blocks were expected"
                )
                yield CheckFinding(blocks, "blocks", problem)


def check_bytes(warehouse: Warehouse, segments: Iterable[BlockRange]) -> Iterator[CheckFinding]:
    """Find tables that no longer render to the bytes that were proven at load."""
    wanted = set(segments)
    for path in sorted({warehouse.volume_path(blocks) for blocks in wanted}):
        for receipt, digest in warehouse.digests(path):
            if receipt.blocks in wanted and digest != receipt.sha256:
                problem = f"renders to SHA-256 {digest}, proven was {receipt.sha256}"
                yield CheckFinding(receipt.blocks, receipt.table, problem)


def _by_volume(
    warehouse: Warehouse, segments: Iterable[BlockRange]
) -> Iterator[tuple[Connection, Sequence[Receipt]]]:
    """Open each volume that holds some of the segments, with those segments' receipts."""
    groups: dict[Path, list[BlockRange]] = {}
    for blocks in sorted(set(segments)):
        groups.setdefault(warehouse.volume_path(blocks), []).append(blocks)
    for path, held in groups.items():
        receipts = warehouse.receipts(held)
        if not receipts:
            raise RangeError(f"the warehouse has no receipts of segment {held[0]}")
        with read_only_connection(path, threads=1) as con:
            yield con, receipts
