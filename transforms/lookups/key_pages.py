"""Key-ordered pages: rows of a table by a key, 64 in a page, as servers answer with them.

A page table of SQLite has a row for each page: `page`, its number from 0 on; under an index the
least key in it (of page 0 the key before all, so that every key has its page); `following`, the
least key of the next page as a JSON array, or null; `marks`, the last four bytes of each first
value of a key in the page, so that most pages without a value need not be inflated; `body`, its
rows in the order of their keys, a line of JSON for each (`RowColumns`), deflated. `crc` is the
CRC-32 of all of these: SQLite itself has no checksums.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise, repeat, zip_longest
from typing import Any, Literal, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from isal import isal_zlib

from transforms.duck import Connection
from transforms.errors import IntegrityError
from transforms.lookups.key_filter import MOST_KEYS, filter_bits, key_hashes

PAGE_ROWS = 64
"""Rows of every page but the last of a table; a power of two."""

# As many as are read at once: a multiple of a page, and of what DuckDB hands out. What a client
# reads is not bounded by DuckDB's own limit, and a row may have kilobytes.
_BATCH_ROWS = 2 * 2048
_RAW_DEFLATE = -15
_LEVEL = 1
_MARK_BYTES = 4

Kind = Literal["text", "time"]
"""What a value of a key is: a text, or microseconds."""
_TYPES = {"text": "text", "time": "integer"}
_BEFORE_ALL = {"text": "", "time": -(2**63)}
Key = tuple[Any, ...]
Row = tuple[Any, ...]
"""A row of a page table, as SQLite has it."""


@dataclass(frozen=True, slots=True)
class PageTable:
    """A kind of page tables: its name, and the leading columns of its key with their kinds."""

    name: str
    key: tuple[tuple[str, Kind], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of the key."""
        return tuple(name for name, _ in self.key)

    @property
    def has_text_keys(self) -> bool:
        """Whether the first column of the key is a text."""
        return self.key[0][1] == "text"

    @property
    def first_key(self) -> Key:
        """The key of page 0."""
        return tuple(_BEFORE_ALL[kind] for _, kind in self.key)


class _Page(NamedTuple):
    key: Key
    number: int
    crc: int
    following: bytes
    marks: bytes
    body: bytes

    @classmethod
    def of(cls, row: Sequence[Any]) -> _Page:
        return cls(tuple(row[1:-4]), row[0], *row[-4:])

    def checksum(self) -> int:
        key = orjson.dumps(self.key)
        rest = b"%d%b%b%b" % (self.number, key, self.following, self.marks)
        return isal_zlib.crc32(self.body, isal_zlib.crc32(rest))

    def next_key(self) -> Key | None:
        following = orjson.loads(self.following)
        return None if following is None else tuple(following)


def write_pages(con: Connection, file: sqlite3.Connection, table: PageTable, rows: str) -> bytes:
    """Make a page table of a new index file; returns the filter of its first values.

    `rows` is a statement for DuckDB that gives, in the order of the key, its columns (times as
    microseconds) and `row`, see `row_sql`, which has the first of them too if that is a text; ""
    gives none. Raises `IntegrityError` where they come in another order.
    """
    columns = ", ".join(f"{name} {_TYPES[kind]} not null" for name, kind in table.key)
    # The bodies under the keys themselves would make a tree of five branches and six levels.
    file.execute(
        f"create table {table.name} (page integer primary key, {columns}, crc integer not null, "
        "following blob not null, marks blob not null, body blob not null)"
    )
    places = ", ".join("?" * (len(table.key) + 5))
    hashes = array("I")
    file.executemany(
        f"insert into {table.name} values ({places})",  # noqa: S608 - our own names
        _pages(con, table, rows, hashes),
    )
    names = ", ".join(table.columns)
    file.execute(f"create index {table.name}_key on {table.name} ({names})")
    return filter_bits(con, hashes)


def prove_pages(
    con: Connection, file: sqlite3.Connection, table: PageTable, rows: str
) -> bytes | None:
    """Make the pages of an index file again: the filter of their first values, see `write_pages`.

    None where the file has others.
    """
    hashes = array("I")
    stored = file.execute(f"select * from {table.name} order by page")  # noqa: S608 - our own
    pages = zip_longest(stored, _pages(con, table, rows, hashes))
    return filter_bits(con, hashes) if all(_is_same(page, made) for page, made in pages) else None


def _is_same(stored: Row | None, made: Row | None) -> bool:
    """Whether two pages have the same rows, however they were deflated."""
    if stored is None or made is None:
        return False
    page, other = _Page.of(stored), _Page.of(made)
    return (
        page.crc == page.checksum()
        and page._replace(crc=other.crc, body=other.body) == other
        and (page.body == other.body or inflate(page.body) == inflate(other.body))
    )


def read_pages(
    file: sqlite3.Connection, table: PageTable, low: Key, high: Key, *, descending: bool
) -> Iterator[list[list[Any]]]:
    """The rows of the pages among which are all rows from one key to another, both included.

    Keys are leading values of the table's key; an empty one is before, or behind, all. Pages come
    in the order of their keys, or descending, as they are read; their rows always ascend. Where
    both keys begin with the same text, rows without it may be left out. Raises `IntegrityError` for
    pages that are damaged, or where one lacks.
    """
    is_marked = bool(low and high) and low[0] == high[0] and isinstance(low[0], str)
    text = low[0] if is_marked else ""
    mark = _mark(text)
    former: int | None = None
    key = high if descending else low
    pages = _pages_sql(table, len(key), descending=descending)
    with closing(file.execute(pages, key)) as cursor:
        for row in cursor:
            page = _Page.of(row)
            if page.crc != page.checksum():
                raise IntegrityError(f"page {page.number} of {table.name} is damaged")
            following = page.next_key()
            if former is not None:
                is_next = page.number == former + (-1 if descending else 1)
            elif descending:
                is_next = following is None or following[: len(high)] > high
            else:
                is_next = page.number == 0 if not low else _begins(page, following, low)
            if not is_next:
                break
            if mark in page.marks:
                yield page_rows(page.body, text)
            former = page.number
            if _is_last(page, following, low, high, descending=descending):
                return
    raise IntegrityError(f"a page of {table.name} lacks beside page {former}")


def _begins(page: _Page, following: Key | None, low: Key) -> bool:
    """Whether the rows from a key on begin in a page."""
    is_early = page.number == 0 or page.key[: len(low)] < low
    return is_early and (following is None or following[: len(low)] >= low)


def _is_last(page: _Page, following: Key | None, low: Key, high: Key, *, descending: bool) -> bool:
    if descending:
        return page.number == 0 or page.key[: len(low)] < low
    return following is None or following[: len(high)] > high


@lru_cache
def _pages_sql(table: PageTable, length: int, *, descending: bool) -> str:
    """SQL for the pages from that with a key on; ascending, its rows may begin in the one before.

    It is found in the index, all others by their numbers.
    """
    than, way = ("<=", "desc") if descending else (">=", "asc")
    where = ""
    if length:
        names, places = ", ".join(table.columns[:length]), ", ".join("?" * length)
        order = ", ".join(f"{name} desc" for name in (*table.columns, "page"))
        where = (
            f"where page {than} coalesce((select page from {table.name} "  # noqa: S608 - our own
            f"where ({names}) {'<=' if descending else '<'} ({places}) "
            f"order by {order} limit 1), 0) "
        )
    return f"select * from {table.name} {where}order by page {way}"  # noqa: S608 - our own names


def inflate(body: bytes) -> bytes:
    """The JSON of a page. Raises `IntegrityError` for what is no page."""
    try:
        return isal_zlib.decompress(body, _RAW_DEFLATE)
    except isal_zlib.error as error:  # type: ignore[misc]  # the stub has an instance
        raise IntegrityError(f"a page of rows cannot be inflated: {error}") from error


def page_rows(body: bytes, text: str = "") -> list[list[Any]]:
    """The rows of a page; of those without this text as a value some may be left out.

    Raises `IntegrityError` for what is no page.
    """
    lines = inflate(body)
    # Most of the time goes into reading JSON. Other texts may be escaped there in several ways.
    if text.isascii() and text.isalnum():
        value = f'"{text}"'.encode()
        first, last = lines.find(value), lines.rfind(value)
        begin = lines.rfind(b"\n", 0, first) + 1
        lines = lines[begin : lines.find(b"\n", last) + 1] if first >= 0 else b""
    try:
        rows: list[list[Any]] = orjson.loads(b"[%b]" % lines[:-1].replace(b"\n", b","))
    except orjson.JSONDecodeError as error:
        raise IntegrityError(f"a page of rows is not JSON: {error}") from error
    return rows


def _pages(con: Connection, table: PageTable, rows: str, hashes: array[int]) -> Iterator[Row]:
    """The pages that rows make; without rows one that has none, as every key has its page.

    The hashes of their first values, where these are texts, are added to `hashes`.
    """
    made = _bodies(con, table, rows, hashes)
    _, marks, body = next(made, ((), b"", _deflated(b"")))
    bodies = chain([(table.first_key, marks, body)], made, [(None, b"", b"")])
    for number, ((key, marks, body), (following, *_)) in enumerate(pairwise(bodies)):
        page = _Page(key or (), number, 0, orjson.dumps(following), marks, body)
        yield (number, *page.key, page.checksum(), *page[3:])


def _bodies(
    con: Connection, table: PageTable, rows: str, hashes: array[int]
) -> Iterator[tuple[Key, bytes, bytes]]:
    """The least key, the marks and the body of each page, a bounded number of rows at a time."""
    last: pa.Scalar | None = None
    for batch in _aligned(_batches(con, rows)):
        keys = [batch.column(name) for name in table.columns]
        is_repeated = _repeated(last, keys[0], table)
        last = keys[0][-1]
        starts = pa.array(range(0, len(batch), PAGE_ROWS), pa.int64())
        firsts = [column.take(starts).to_pylist() for column in keys]
        marks: Iterator[bytes] = repeat(b"", len(starts))
        if table.has_text_keys:
            texts = keys[0].cast(pa.large_binary())
            marks = _marks(texts, is_repeated)
            if len(hashes) <= MOST_KEYS:
                hashes.extend(key_hashes(texts.filter(pc.invert(is_repeated)).to_pylist()))
        bodies = map(_deflated, _page_texts(batch.column("row")))
        yield from zip(zip(*firsts, strict=True), marks, bodies, strict=True)


def _batches(con: Connection, rows: str) -> Iterator[pa.RecordBatch]:
    """What a statement gives, a bounded number of rows at a time."""
    if rows:
        with con.cursor() as reading:
            yield from reading.sql(rows).to_arrow_reader(_BATCH_ROWS)


def _repeated(last: pa.Scalar | None, values: pa.Array, table: PageTable) -> pa.Array:
    """Whether each first value of keys is the one before; they ascend, from the `last` one on."""
    before = pa.concat_arrays([pa.array([last], values.type), values[:-1]])
    if pc.any(pc.greater(before, values)).as_py():
        raise IntegrityError(f"the rows of {table.name} are not in the order of their key")
    return pc.equal(before, values).fill_null(fill_value=False)


def _marks(values: pa.Array, is_repeated: pa.Array) -> Iterator[bytes]:
    """What each page has for the first values of its keys: each of them once."""
    places = pa.array(range(len(values)), pa.int64())
    is_inside = pc.not_equal(pc.bit_wise_and(places, PAGE_ROWS - 1), 0)
    ends = pc.binary_slice(values, -_MARK_BYTES)
    none = pa.scalar(b"", pa.large_binary())
    marks = pc.if_else(pc.and_(is_inside, is_repeated), none, ends)
    return map(bytes, _page_texts(marks))


def _mark(value: str) -> bytes:
    """What a page has for a first value of a key."""
    return value.encode("utf-8", "replace")[-_MARK_BYTES:]


def _aligned(reader: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of whole pages, but for the last."""
    batches: list[pa.RecordBatch] = []
    row_count = 0
    for batch in reader:
        batches.append(batch)
        row_count += len(batch)
        if row_count >= _BATCH_ROWS:
            whole = pa.concat_batches(batches) if batches[1:] else batch
            cut = row_count // PAGE_ROWS * PAGE_ROWS
            yield whole.slice(0, cut)
            batches, row_count = [whole.slice(cut)] * (cut < row_count), row_count - cut
    if row_count:
        yield pa.concat_batches(batches)


def _page_texts(values: pa.Array) -> Iterator[memoryview]:
    """The texts of the rows of each page, one after the other."""
    _, offsets, data = values.buffers()
    is_short = values.type in (pa.string(), pa.binary())
    ends = memoryview(offsets).cast("i" if is_short else "q")
    text = memoryview(data or b"")
    last = values.offset + len(values)
    for begin in range(values.offset, last, PAGE_ROWS):
        yield text[ends[begin] : ends[min(begin + PAGE_ROWS, last)]]


def _deflated(rows: bytes | memoryview) -> bytes:
    """The body of a page, from the lines of its rows."""
    return isal_zlib.compress(rows, _LEVEL, _RAW_DEFLATE)


def row_sql(values: str) -> str:
    """SQL for the line of a row of some values, as `write_pages` wants it."""
    return f"json_array({values})::varchar || chr(10) as row"
