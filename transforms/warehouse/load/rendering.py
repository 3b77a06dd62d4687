"""Rendering rows as CSV bytes: spec 2.8.1-5, the NULL string an option (2.8.3)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, TypeVar

import duckdb

from transforms.duck import (
    Connection,
    naming_large,
    plain_errors,
    working_connection,
)
from transforms.errors import ConfigError, IntegrityError
from transforms.memory import RENDERING_LIMIT
from transforms.segments.segment_zip import TableFile
from transforms.tables.conform import rendered
from transforms.tables.dialect import copy_sql, select_list
from transforms.tables.registry import TableSchema
from transforms.warehouse.files.local_files import REMEDY
from transforms.warehouse.manifests.data_files import rows_sql
from transforms.warehouse.manifests.receipts import Receipt

Source = Callable[[TableSchema], str]
"""From a table and its columns to SQL for rows with these."""

_CHUNK = 1 << 20
_FORBIDDEN_IN_NULL = ',"\r\n'
# CSV bytes that are rendered at once, into a file of the scratch.
_PORTION_BYTES = 128 * 10**6


def rendered_table(
    data: Path | None,
    scratch: Path,
    receipt: Receipt,
    *,
    null: str = "",
    memory_limit: str = RENDERING_LIMIT,
) -> tuple[bytes, Path]:
    """Render one table of one segment as it was dumped, or with another NULL string.

    Returns its header and the file of its body. `data` is the data file that has its rows (None:
    there are none). Raises `ConfigError` for a NULL string that could be a value, `IntegrityError`
    where other bytes come than were proven, `MemoryLimitError` where one row takes more than
    `memory_limit`.
    """
    check_null(null)
    path = scratch / "table.csv"
    with (
        working_connection(scratch, size=receipt.bytes, memory_limit=memory_limit) as con,
        readable(str(data), scratch),
    ):
        source = rows_sql(receipt.table, receipt.schema.columns, [data] if data else [])
        if null:
            _render(con, source, [receipt], path, null)
        elif problem := rendering_problem(con, lambda _: source, [receipt], scratch):
            raise IntegrityError(f"table {receipt.table} of {problem}: {REMEDY}")
    names = (f'"{name}"' if name == null else name for name in receipt.schema.names)
    return (",".join(names) + "\n").encode(), path


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


def rendering_problem(
    con: Connection, source: Source, receipts: Iterable[Receipt], scratch: Path
) -> str:
    """The first CSV that rows do not render to as its receipt says; "" if there is none.

    The receipts ascend by table, then by block; `source` is what gives a table's rows with some
    columns.
    """
    path = scratch / "table.csv"
    for schema, group in groupby(receipts, key=lambda receipt: receipt.schema):
        for alike in portions(group):
            _render(con, source(schema), alike, path, "")
            with path.open("rb") as stream:
                for receipt in alike:
                    digest = hashlib.sha256(schema.header)
                    for chunk in _chunks(stream, receipt.bytes - len(schema.header)):
                        digest.update(chunk)
                    if digest.hexdigest() != receipt.sha256:
                        return (
                            f"segment {receipt.blocks} no longer renders to the bytes that were "
                            f"loaded (SHA-256 {digest.hexdigest()}, recorded {receipt.sha256})"
                        )
                if stream.read(1):
                    return f"segment {alike[-1].blocks} renders more rows than were loaded"
    return ""


def write_csv(
    con: Connection, rows: str, schema: TableSchema, path: Path, *, raw: bool, null: str = ""
) -> None:
    """Write rows, which lie in the order of their CSVs, as CSV text without a header.

    `rows` is SQL, with its condition; unless `raw`, none keeps a text.
    """
    values = [(rendered(schema.table, column, raw=raw), column.name) for column in schema.columns]
    query = f"select {select_list(values)} from {rows}"  # noqa: S608 - names are quoted
    con.execute(copy_sql(query, path, header=False, null=null))


_Csv = TypeVar("_Csv", TableFile, Receipt)


def portions(items: Iterable[_Csv]) -> Iterator[list[_Csv]]:
    """Consecutive CSVs, as many as are rendered at once."""
    portion: list[_Csv] = []
    size = 0
    for item in items:
        if portion and size + item.bytes > _PORTION_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(item)
        size += item.bytes
    if portion:
        yield portion


def _render(
    con: Connection, source: str, receipts: Sequence[Receipt], path: Path, null: str
) -> None:
    """Write the bodies of consecutive segments of one schema to a file."""
    schema, ends = receipts[0].schema, [receipts[0].blocks, receipts[-1].blocks]
    rows = f"{source} where _segment between {ends[0].first} and {ends[1].first}"
    texts = con.execute(f"select 1 from {rows} and _raw is not null limit 1").fetchone()  # noqa: S608
    segments = " to ".join(dict.fromkeys(map(str, ends)))
    with naming_large(f"table {schema.table} of segments {segments}", path.parent):
        write_csv(con, rows, schema, path, raw=texts is not None, null=null)


def _chunks(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """So many bytes of a stream, or as many as there are."""
    while size > 0 and (chunk := stream.read(min(_CHUNK, size))):
        size -= len(chunk)
        yield chunk
