"""Rendering rows as CSV bytes: spec 2.8.1-5, the NULL string an option (2.8.3)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

import duckdb

from transforms.block_range import BlockRange
from transforms.duck import (
    Connection,
    naming_large,
    plain_errors,
    working_connection,
)
from transforms.errors import ConfigError, IntegrityError
from transforms.memory import RENDERING_LIMIT
from transforms.tables.dialect import copy_sql
from transforms.tables.registry import TableSchema
from transforms.warehouse.load.table_load import portions, render_sql
from transforms.warehouse.manifests.data_files import rows_sql
from transforms.warehouse.manifests.receipts import Receipt

Source = Callable[[TableSchema], str]
"""From a table and its columns to SQL for rows with these."""

_CHUNK = 1 << 20
REMEDY = "the file is damaged, run strata repair and load its segments again"
_FORBIDDEN_IN_NULL = ',"\r\n'


@dataclass(frozen=True, slots=True)
class RenderedTable:
    """One table of one segment: its receipt, the header line, the body as a stream of bytes."""

    receipt: Receipt
    header: bytes
    body: Iterator[bytes]


@contextmanager
def rendered_table(
    data: Path | None,
    scratch: Path,
    receipt: Receipt,
    *,
    null: str = "",
    memory_limit: str = RENDERING_LIMIT,
) -> Iterator[RenderedTable]:
    """Render one table of one segment as it was dumped, or with another NULL string.

    `data` is the data file that has its rows (None: there are none). Raises `ConfigError` for a
    NULL string that could be a value, `IntegrityError` where other bytes come than were proven,
    `MemoryLimitError` where one row takes more than `memory_limit`.
    """
    check_null(null)
    rendered = scratch / "table.csv"
    with (
        working_connection(scratch, size=receipt.bytes, memory_limit=memory_limit) as con,
        readable(str(data), scratch),
    ):
        source = rows_sql(receipt.table, receipt.schema.columns, [data] if data else [])
        header = _copy(con, source, [receipt], rendered, null)
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


@contextmanager
def readable(what: str, scratch: Path, remedy: str = REMEDY) -> Iterator[None]:
    """Say of a file that its bytes cannot be read: an `IntegrityError`."""
    try:
        with plain_errors(scratch):
            yield
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise IntegrityError(f"{what} cannot be read ({reason}): {remedy}") from error


def table_digests(
    con: Connection, source: Source, receipts: Sequence[Receipt], scratch: Path
) -> Iterator[tuple[Receipt, str]]:
    """Render tables; yields each receipt with the SHA-256 of what comes.

    The receipts ascend by table, then by block; `source` is what gives a table's rows with some
    columns. Raises `IntegrityError` where a table has more rows than the receipts say.
    """
    for schema, group in groupby(receipts, key=lambda receipt: receipt.schema):
        for alike in portions(group):
            rendered = scratch / "table.csv"
            header = _copy(con, source(schema), alike, rendered, "")
            with rendered.open("rb") as stream:
                for receipt in alike:
                    yield receipt, _digest(receipt, header, stream)
                if stream.read(1):
                    raise IntegrityError(
                        f"table {schema.table} renders more rows than were loaded: {REMEDY}"
                    )


def rendering_problem(digests: Iterable[tuple[Receipt, str]]) -> str:
    """The first CSV that is another one than was loaded, and how many more."""
    others = [
        f"segment {receipt.blocks} renders to SHA-256 {digest}, not {receipt.sha256}"
        for receipt, digest in digests
        if digest != receipt.sha256
    ]
    more = f" (and {len(others) - 1} more of its segments)" if len(others) > 1 else ""
    return f"{others[0]}{more}" if others else ""


def _digest(receipt: Receipt, header: bytes, stream: BinaryIO) -> str:
    """The SHA-256 of a header and of as many bytes of a stream as the receipt says."""
    digest = hashlib.sha256(header)
    rest = receipt.bytes - len(header)
    while rest > 0 and (chunk := stream.read(min(_CHUNK, rest))):
        digest.update(chunk)
        rest -= len(chunk)
    return digest.hexdigest()


def _copy(
    con: Connection, source: str, receipts: Sequence[Receipt], path: Path, null: str
) -> bytes:
    """Write the bodies of consecutive segments of one schema to a file; returns their header."""
    schema = receipts[0].schema
    starts = BlockRange(receipts[0].blocks.first, receipts[-1].blocks.first)
    raw = _has_texts(con, source, starts)
    query = render_sql(source, schema, starts, raw=raw)
    segments = " to ".join(dict.fromkeys(str(end.blocks) for end in (receipts[0], receipts[-1])))
    with naming_large(f"table {schema.table} of segments {segments}", path.parent):
        con.execute(copy_sql(query, path, header=False, null=null))
    names = (f'"{name}"' if name == null else name for name in schema.names)
    return (",".join(names) + "\n").encode()


def _has_texts(con: Connection, source: str, starts: BlockRange) -> bool:
    """Whether any row of these segments keeps a text."""
    where = f"_segment between {starts.first} and {starts.last} and _raw is not null"
    return con.execute(f"select 1 from {source} where {where} limit 1").fetchone() is not None  # noqa: S608


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
