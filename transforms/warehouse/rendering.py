"""Rendering tables of a volume as CSV bytes: spec 2.8.1-5, the NULL string an option (2.8.3)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

import duckdb

from transforms.block_range import BlockRange
from transforms.duck import Connection, naming_large, quote_name, read_only_connection
from transforms.errors import ConfigError, IntegrityError, RangeError
from transforms.lookups.lookup_tables import prove_lookups
from transforms.memory import MEMORY_LIMIT
from transforms.tables.dialect import copy_sql
from transforms.warehouse.receipts import Receipt
from transforms.warehouse.table_load import render_sql
from transforms.warehouse.volume_records import read_receipts

_CHUNK = 1 << 20
REMEDY = "the volume is damaged, run strata repair and load its segments again"
_FORBIDDEN_IN_NULL = ',"\r\n'


@dataclass(frozen=True, slots=True)
class RenderedTable:
    """One table of one segment: its receipt, the header line, the body as a stream of bytes."""

    receipt: Receipt
    header: bytes
    body: Iterator[bytes]


@contextmanager
def rendered_table(
    volume: Path,
    scratch: Path,
    blocks: BlockRange,
    table: str,
    *,
    null: str = "",
    memory_limit: str = MEMORY_LIMIT,
) -> Iterator[RenderedTable]:
    """Render one table of one segment of a volume, as it was dumped, or with another NULL string.

    Raises `RangeError` where the segment has no such table, `ConfigError` for a NULL string that
    could be a value, `IntegrityError` where other bytes come than were proven, `MemoryLimitError`
    where one row takes more than `memory_limit`.
    """
    check_null(null)
    with _readable(volume, scratch, memory_limit) as con:
        receipts = read_receipts(
            con,
            f"from strata.receipts where first_block = {blocks.first} "
            f"and last_block = {blocks.last} and table_name = $table",
            {"table": table},
        )
        if not receipts:
            raise RangeError(f"segment {blocks} has no table {table}")
        receipt = receipts[0]
        rendered = scratch / "table.csv"
        header = _copy(con, receipts, rendered, null)
    with rendered.open("rb") as stream:
        body = _stream(stream)
        yield RenderedTable(
            receipt, header, _verified(receipt, header, body) if null == "" else body
        )


def check_null(null: str) -> None:
    """Refuse a NULL string that holds a delimiter, a quote or a line end. Raises `ConfigError`."""
    if any(char in null for char in _FORBIDDEN_IN_NULL):
        raise ConfigError(
            f"the NULL string {null!r} holds a comma, a quote or a line end: "
            "nothing could tell it from a value"
        )


def volume_digests(volume: Path, scratch: Path, memory_limit: str) -> Iterator[tuple[Receipt, str]]:
    """Render all tables of all segments in a volume; yields each receipt with the CSV's SHA-256.

    Raises `IntegrityError` where the volume cannot be read, holds more than its receipts say, or
    has lookups that do not follow from its tables.
    """
    with _readable(volume, scratch, memory_limit) as con:
        receipts = read_receipts(con, "from strata.receipts order by table_name, first_block", {})
        yield from table_digests(con, receipts, scratch)
        if wrong := prove_lookups(con, "current"):
            raise IntegrityError(f"{volume}: {wrong}: {REMEDY}")


def table_digests(
    con: Connection,
    receipts: Sequence[Receipt],
    scratch: Path,
    *,
    raw: bool | None = None,
    is_ordered: bool = False,
) -> Iterator[tuple[Receipt, str]]:
    """Render tables of the volume in use; yields each receipt with the SHA-256 of what comes.

    The receipts ascend by table, then by block. `raw` says whether any row has texts in `_raw`
    (None: as the receipts say), `is_ordered` that all rows lie in the order of their CSVs. Raises
    `IntegrityError` where a table has more rows than the receipts say.
    """
    for _, group in groupby(receipts, key=lambda receipt: receipt.schema):
        alike = list(group)
        rendered = scratch / "table.csv"
        header = _copy(con, alike, rendered, "", raw=raw, is_ordered=is_ordered)
        with rendered.open("rb") as stream:
            for receipt in alike:
                digest = hashlib.sha256(header)
                rest = receipt.bytes - len(header)
                while rest > 0 and (chunk := stream.read(min(_CHUNK, rest))):
                    digest.update(chunk)
                    rest -= len(chunk)
                yield receipt, digest.hexdigest()
            if stream.read(1):
                raise IntegrityError(
                    f"table {alike[-1].table} renders more rows than were loaded: {REMEDY}"
                )


@contextmanager
def _readable(volume: Path, scratch: Path, memory_limit: str) -> Iterator[Connection]:
    """Open a volume; that its bytes cannot be read is an `IntegrityError`."""
    try:
        with read_only_connection(
            volume, threads=1, scratch=scratch, memory_limit=memory_limit
        ) as con:
            yield con
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise IntegrityError(f"{volume} cannot be read ({reason}): {REMEDY}") from error


def _copy(
    con: Connection,
    receipts: Sequence[Receipt],
    path: Path,
    null: str,
    *,
    raw: bool | None = None,
    is_ordered: bool = False,
) -> bytes:
    """Write the bodies of consecutive segments of one schema to a file; returns their header."""
    schema = receipts[0].schema
    starts = BlockRange(receipts[0].blocks.first, receipts[-1].blocks.first)
    if raw is None:
        raw = any(receipt.raw_cells for receipt in receipts)
    query = render_sql(quote_name(schema.table), schema, starts, raw=raw, is_ordered=is_ordered)
    segments = " to ".join(dict.fromkeys(str(end.blocks) for end in (receipts[0], receipts[-1])))
    with naming_large(f"table {schema.table} of segments {segments}", path.parent):
        con.execute(copy_sql(query, path, header=False, null=null))
    names = (f'"{name}"' if name == null else name for name in schema.names)
    return (",".join(names) + "\n").encode()


def _stream(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk


def _verified(receipt: Receipt, header: bytes, body: Iterator[bytes]) -> Iterator[bytes]:
    digest = hashlib.sha256(header)
    for chunk in body:
        digest.update(chunk)
        yield chunk
    if digest.hexdigest() != receipt.sha256:
        raise IntegrityError(
            f"table {receipt.table} of segment {receipt.blocks} no longer renders to the bytes "
            f"that were loaded (SHA-256 {digest.hexdigest()}, recorded {receipt.sha256}): "
            f"{REMEDY}"
        )
