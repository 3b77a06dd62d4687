"""PostgreSQL's `COPY ... CSV`, written a second time so that tests have an oracle (spec 2.8.1-5).

Nothing here may import the product. The rule: a value is quoted exactly when it holds a comma, a
double quote, CR or LF, or when it equals the NULL string (the empty string by default); nothing
else quotes; a NULL is the bare NULL string; every row, also the last, ends with one LF.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

Cell = str | None
"""A column's text as PostgreSQL prints it; None is NULL."""

_QUOTING = frozenset(',"\r\n')
# One field and what ends it. A quote inside a bare field and text after a closing quote do not fit.
_FIELD = re.compile(rb'(?:"((?:[^"]++|"")*+)"|([^",\r\n]*+))([,\n])')


class Field(NamedTuple):
    """One field of a CSV file: whether it was quoted, and its bytes without the quoting."""

    quoted: bool
    text: bytes

    @property
    def cell(self) -> Cell:
        """The value behind the field; bytes that are not UTF-8 survive as surrogates."""
        if not self.quoted and not self.text:
            return None
        return self.text.decode("utf-8", "surrogateescape")


def pg_field(value: Cell, null: str = "") -> str:
    """Encode one value as PostgreSQL does."""
    if value is None:
        return null
    if value == null or not _QUOTING.isdisjoint(value):
        return '"' + value.replace('"', '""') + '"'
    return value


def pg_csv(header: Sequence[str], rows: Iterable[Sequence[Cell]], null: str = "") -> bytes:
    """Encode a header and rows; a table without rows is its header line."""
    lines = (",".join(pg_field(value, null) for value in row) for row in (header, *rows))
    return "".join(line + "\n" for line in lines).encode("utf-8", "surrogateescape")


def tokens(data: bytes) -> Iterator[list[Field]]:
    """Split CSV bytes into rows of fields.

    Raises `ValueError` with the byte offset for anything that PostgreSQL would not have written as
    a row: an unclosed or stray quote, a bare CR, a last row without its line feed.
    """
    row: list[Field] = []
    offset = 0
    while offset < len(data):
        match = _FIELD.match(data, offset)
        if match is None:
            raise ValueError(f"no CSV field at byte {offset}: {data[offset : offset + 40]!r}")
        quoted, bare, end = match.groups()
        if quoted is None:
            row.append(Field(False, bare))
        else:
            row.append(Field(True, quoted.replace(b'""', b'"')))
        offset = match.end()
        if end == b"\n":
            yield row
            row = []
    if row:
        raise ValueError(f"the last row has no line feed: {data[-40:]!r}")


def decode(data: bytes) -> tuple[list[str], list[list[Cell]]]:
    """Read a whole file as its header and its rows of values."""
    rows = [[field.cell for field in row] for row in tokens(data)]
    return [name or "" for name in rows[0]], rows[1:]
