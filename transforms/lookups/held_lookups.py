"""What servers hold of a volume's lookups: a mapped file of a machine's cache, made once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from transforms.duck import Connection, Error, attached, plain_errors
from transforms.errors import UnreadableFilesError
from transforms.lookups.key_filters import KeyFilter
from transforms.lookups.key_pages import PageIndex, PageTable, held_index, index_sections
from transforms.lookups.lookup_tables import (
    FILTERS,
    IDENTITIES,
    PAGES,
    TIMES,
    lookups_of,
)
from transforms.mapped_files import Mapped, Sections, packed

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Identities:
    """The withdrawals of a volume, by the two halves of their identities, in order of the first.

    `written` are the times of their last rows, in microseconds.
    """

    highs: Sequence[int]
    lows: Sequence[int]
    written: Sequence[int]


@dataclass(frozen=True, slots=True)
class Lookups:
    """A volume's lookups.

    `filters` are by table and column, `pages` by kind, `times` by table: the first and the last of
    its rows, in microseconds since 1970, None where it has none.
    """

    filters: Mapping[str, KeyFilter]
    pages: Mapping[PageTable, PageIndex]
    times: Mapping[str, tuple[int, int] | None]
    identities: Identities

    @classmethod
    def of(cls, file: Mapped) -> Lookups | None:
        """The lookups in a mapped file; None where the volume has none."""
        if file.said is None:
            return None
        return cls(
            filters={key: KeyFilter(file.bytes(key)) for key in file.said["filters"]},
            pages={table: held_index(file, table) for table in PAGES if _is_held(file, table)},
            times={
                table: None if times is None else (times[0], times[1])
                for table, times in file.said["times"].items()
            },
            identities=Identities(
                file.numbers("highs", "Q"), file.numbers("lows", "Q"), file.numbers("written", "q")
            ),
        )


def file_name(index_sha256: str) -> str:
    """The name of the mapped file of an index file."""
    return f"{index_sha256}.{_FORMAT}.lookups"


def packed_lookups(con: Connection, index: Path) -> bytes:
    """The mapped file of an index file, which is attached to a connection of no other files.

    Raises `UnreadableFilesError` where it cannot be read.
    """
    try:
        with plain_errors(), attached(con, index, "volume", "(read_only)"):
            return _packed(con)
    except Error as error:
        raise UnreadableFilesError([index]) from error


def _packed(con: Connection) -> bytes:
    tables = lookups_of(con, "volume")
    if not tables:
        return packed(None, {})
    filters = dict(con.execute(f"select key, bits from volume.strata.{FILTERS}").fetchall())  # noqa: S608
    times = con.execute(f"select key, first, last from volume.strata.{TIMES}").fetchall()  # noqa: S608
    sections: Sections = {**filters, **_identity_sections(con)}
    for table in PAGES:
        if table.name in tables:
            sections |= index_sections(con, "volume", table)
    spans = {key: None if first is None else (first, last) for key, first, last in times}
    return packed({"filters": [*filters], "times": spans}, sections)


def _is_held(file: Mapped, table: PageTable) -> bool:
    name, kind = table.key[0]
    return f"{table.name}.{name}{' ends' if kind == 'text' else ''}" in file


def _identity_sections(con: Connection) -> Sections:
    half = "18446744073709551615::uhugeint"
    identities = con.sql(
        f"select (identity >> 64)::ubigint as highs, (identity & {half})::ubigint as lows, written "  # noqa: S608
        f"from volume.strata.{IDENTITIES} order by identity"
    ).to_arrow_table()
    return {name: _column_bytes(identities.column(name)) for name in ("highs", "lows", "written")}


def _column_bytes(column: pa.ChunkedArray) -> bytes:
    """The bytes of a column of 64-bit numbers, none of which is NULL."""
    return b"".join(
        bytes(memoryview(chunk.buffers()[1])[8 * chunk.offset : 8 * (chunk.offset + len(chunk))])
        for chunk in column.chunks
    )
