"""Rendering rows as CSV bytes: spec 2.8.1-5, the NULL string an option (2.8.3)."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import duckdb

from transforms.duck import Connection, naming_large, plain_errors, working_connection
from transforms.errors import IntegrityError
from transforms.warehouse.files.local_files import REMEDY
from transforms.warehouse.load.row_text import RowText, row_text
from transforms.warehouse.manifests.data_files import rows_sql
from transforms.warehouse.manifests.receipts import Receipt

_CHUNK = 1 << 18


def rendered_body(
    data: Path | None, scratch: Path, receipt: Receipt, null: str, memory_limit: str
) -> Generator[bytes]:
    """Render one table of one segment as it was dumped, or with another NULL string.

    Yields what follows its header. `data` is the data file that has its rows (None: there are
    none). Raises `IntegrityError`, in the end, where other bytes came than were proven, and
    `MemoryLimitError` where one row takes more than `memory_limit`.
    """
    digest = hashlib.sha256(receipt.schema.header)
    if data is not None:
        with (
            working_connection(scratch, size=receipt.bytes, memory_limit=memory_limit) as con,
            readable(str(data), scratch),
            _rendered(con, data, [receipt], scratch, null) as text,
        ):
            while chunk := text.read(_CHUNK):
                digest.update(chunk)
                yield chunk
    if not null and (problem := _difference(receipt, digest.hexdigest())):
        raise IntegrityError(f"{problem}: {REMEDY}")


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
    con: Connection, data: Path | None, receipts: Iterable[Receipt], scratch: Path
) -> str:
    """The first CSV that a file does not render to as its receipt says; "" if there is none.

    The receipts ascend by table, then by block; `data` is the data file of their table, or the file
    of a current state (None: there are no rows).
    """
    for schema, group in groupby(receipts, key=lambda receipt: receipt.schema):
        alike = [*group]
        with _rendered(con, data, alike, scratch, null="") as text:
            for receipt in alike:
                digest, size = hashlib.sha256(schema.header), receipt.bytes - len(schema.header)
                while chunk := text.read(min(_CHUNK, size)):
                    digest.update(chunk)
                    size -= len(chunk)
                if receipt is alike[-1]:
                    digest.update(text.read(1))  # of a row that was not loaded
                if problem := _difference(receipt, digest.hexdigest()):
                    return problem
    return ""


def _difference(receipt: Receipt, sha256: str) -> str:
    if sha256 == receipt.sha256:
        return ""
    return (
        f"table {receipt.table} of segment {receipt.blocks} no longer renders to the bytes that "
        f"were loaded (SHA-256 {sha256}, recorded {receipt.sha256})"
    )


@contextmanager
def _rendered(
    con: Connection, data: Path | None, receipts: Sequence[Receipt], scratch: Path, null: str
) -> Iterator[RowText]:
    """The bodies of consecutive segments of one schema, one after the other."""
    schema, first, last = receipts[0].schema, receipts[0].blocks, receipts[-1].blocks
    source = rows_sql(schema.table, schema.columns, [data] if data else [])
    rows = f"{source} where _segment between {first.first} and {last.first}"
    with naming_large(f"table {schema.table} of segments {first.first}-{last.last}", scratch):
        texts = con.execute(f"select 1 from {rows} and _raw is not null limit 1").fetchone()  # noqa: S608
        with row_text(con, rows, schema, raw=texts is not None, null=null) as text:
            yield text
