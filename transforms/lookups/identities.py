"""Identities: what tells the rows of listings apart that show of equal ones only the last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from transforms.duck import Connection
from transforms.lookups.index_file import IndexFile

IDENTITIES = ("highs", "lows", "written")


@dataclass(frozen=True, slots=True)
class Identities:
    """The rows of a table in an index file, by the two halves of their identities, in order.

    `written` are the times of their last rows, in microseconds. Each is read when it is asked for;
    raises `UnreadableFilesError`.
    """

    index: IndexFile
    table: str

    @property
    def highs(self) -> memoryview:
        """The first halves."""
        return self._numbers("highs", "Q")

    @property
    def lows(self) -> memoryview:
        """The other halves."""
        return self._numbers("lows", "Q")

    @property
    def written(self) -> memoryview:
        """The times."""
        return self._numbers("written", "q")

    def _numbers(self, name: str, kind: Literal["Q", "q"]) -> memoryview:
        return memoryview(self.index.fact(f"{self.table}.{name}")).cast(kind)


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


def _column_bytes(column: pa.ChunkedArray) -> bytes:
    """The bytes of a column of 64-bit numbers, none of which is NULL."""
    return b"".join(
        bytes(memoryview(chunk.buffers()[1])[8 * chunk.offset : 8 * (chunk.offset + len(chunk))])
        for chunk in column.chunks
    )
