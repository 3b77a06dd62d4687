"""Identities: what tells the rows of listings apart that show of equal ones only the last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from transforms.duck import Connection
from transforms.lookups.index_file import IndexFile

IDENTITIES = ("highs", "lows", "written")


@dataclass(frozen=True, slots=True)
class Identities:
    """The rows of a volume, by the two halves of their identities, in order of these.

    `written` are the times of their last rows, in microseconds.
    """

    highs: Sequence[int]
    lows: Sequence[int]
    written: Sequence[int]


def halves_sql(identities: str) -> str:
    """SQL for the columns of `Identities`, in their order.

    `identities` is SQL for `identity`, an MD5 as a number, and `written`.
    """
    half = "18446744073709551615::uhugeint"
    return (
        f"select (identity >> 64)::ubigint as highs, (identity & {half})::ubigint as lows, "  # noqa: S608
        f"written from ({identities}) order by identity"
    )


def identity_facts(con: Connection, table: str, identities: str) -> dict[str, bytes]:
    """What an index file has of a table's identities; see `halves_sql`; "" for none."""
    if not identities:
        return {f"{table}.{name}": b"" for name in IDENTITIES}
    rows = con.sql(halves_sql(identities)).to_arrow_table()
    return {f"{table}.{name}": _column_bytes(rows.column(name)) for name in IDENTITIES}


def identities_of(index: IndexFile, table: str) -> Identities:
    """A table's identities in an index file. Raises `UnreadableFilesError`."""
    highs, lows, written = (memoryview(index.fact(f"{table}.{name}")) for name in IDENTITIES)
    return Identities(highs.cast("Q"), lows.cast("Q"), written.cast("q"))


def _column_bytes(column: pa.ChunkedArray) -> bytes:
    """The bytes of a column of 64-bit numbers, none of which is NULL."""
    return b"".join(
        bytes(memoryview(chunk.buffers()[1])[8 * chunk.offset : 8 * (chunk.offset + len(chunk))])
        for chunk in column.chunks
    )
