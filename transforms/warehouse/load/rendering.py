"""Rendering rows as CSV bytes: spec 2.8.1-5, the NULL string an option (2.8.3)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import duckdb

from transforms.duck import (
    Connection,
    naming_large,
    plain_errors,
    working_connection,
)
from transforms.errors import ConfigError, IntegrityError
from transforms.files import naming_full_disk
from transforms.memory import RENDERING_LIMIT
from transforms.warehouse.files.local_files import REMEDY
from transforms.warehouse.load.row_text import RowText, row_text
from transforms.warehouse.manifests.data_files import rows_sql, state_sql
from transforms.warehouse.manifests.receipts import Receipt

_CHUNK = 1 << 18
_FORBIDDEN_IN_NULL = ',"\r\n'


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
    path, digest = scratch / "table.csv", hashlib.sha256(receipt.schema.header)
    with (
        working_connection(scratch, size=receipt.bytes, memory_limit=memory_limit) as con,
        readable(str(data), scratch),
        _rendered(con, data, [receipt], scratch, null) as text,
        naming_full_disk(path),
        path.open("wb") as file,
    ):
        while chunk := text.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
    if not null and digest.hexdigest() != receipt.sha256:
        raise IntegrityError(f"{_difference(receipt, digest.hexdigest())}: {REMEDY}")
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
    con: Connection, data: Path | None, receipts: Iterable[Receipt], scratch: Path
) -> str:
    """The first CSV that a file does not render to as its receipt says; "" if there is none.

    The receipts ascend by table, then by block; `data` is the data file of their table, or the file
    of a current state (None: there are no rows).
    """
    for schema, group in groupby(receipts, key=lambda receipt: receipt.schema):
        alike = [*group]
        with _rendered(con, data, alike, scratch) as text:
            for receipt in alike:
                digest = hashlib.sha256(schema.header)
                for chunk in _chunks(text, receipt.bytes - len(schema.header)):
                    digest.update(chunk)
                if digest.hexdigest() != receipt.sha256:
                    return _difference(receipt, digest.hexdigest())
            if text.read(1):
                return (
                    f"table {schema.table} of segment {alike[-1].blocks} renders more rows than "
                    "were loaded"
                )
    return ""


def _difference(receipt: Receipt, digest: str) -> str:
    return (
        f"table {receipt.table} of segment {receipt.blocks} no longer renders to the bytes that "
        f"were loaded (SHA-256 {digest}, recorded {receipt.sha256})"
    )


@contextmanager
def _rendered(
    con: Connection,
    data: Path | None,
    receipts: Sequence[Receipt],
    scratch: Path,
    null: str = "",
) -> Iterator[RowText]:
    """The bodies of consecutive segments of one schema, one after the other."""
    schema, ends = receipts[0].schema, [receipts[0].blocks, receipts[-1].blocks]
    if data is not None and data.suffix == ".duckdb":
        source = state_sql(schema.table, [data])
    else:
        source = rows_sql(schema.table, schema.columns, [data] if data else [])
    rows = f"{source} where _segment between {ends[0].first} and {ends[1].first}"
    segments = " to ".join(dict.fromkeys(map(str, ends)))
    with naming_large(f"table {schema.table} of segments {segments}", scratch):
        texts = con.execute(f"select 1 from {rows} and _raw is not null limit 1").fetchone()  # noqa: S608
        with row_text(con, rows, schema, raw=texts is not None, null=null) as text:
            yield text


def _chunks(text: RowText, size: int) -> Iterator[bytes]:
    """So many bytes of a text, or as many as there are."""
    while size > 0 and (chunk := text.read(min(_CHUNK, size))):
        size -= len(chunk)
        yield chunk
