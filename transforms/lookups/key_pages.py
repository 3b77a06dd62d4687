"""Key-ordered pages: rows of a table by a key, 64 in a page, as servers answer with them.

A page table lies in the schema `strata` of a volume, beside its tables: `page`, the number of the
page from 0 on, the least key in it, and `body`: its rows in the order of their keys as one JSON
array of arrays (`RowColumns`), deflated. The least keys are held in memory, so that a server knows
which pages to fetch, and to fetch one costs a tenth of asking the table for the row.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any, Literal

import duckdb
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from isal import isal_zlib

from transforms.duck import Connection
from transforms.errors import IntegrityError
from transforms.mapped_files import (
    Mapped,
    Sections,
    Texts,
    numbers_section,
    prefix,
    texts_sections,
)
from transforms.sessions import Row

PAGE_ROWS = 64
"""Rows of every page but the last of a table."""

# As many as are read at once: a multiple of a page, and of what DuckDB hands out. What a client
# reads is not bounded by DuckDB's own limit, and a row may have kilobytes.
_BATCH_ROWS = 2 * 2048
_READ_PAGES = 128
_RAW_DEFLATE = -15
_LEVEL = 1

Kind = Literal["prefix", "text", "time"]
"""How a least key is kept: the first 8 bytes of a text as a number, a text, or microseconds."""
_CODES = {"prefix": "Q", "time": "q"}
_TYPES = {"prefix": "ubigint", "text": "varchar", "time": "bigint"}
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class PageTable:
    """A kind of page tables: its name, and the leading columns of its key with their kinds."""

    name: str
    key: tuple[tuple[str, Kind], ...]


def write_pages(con: Connection, volume: str, table: PageTable, rows: str) -> None:
    """Make a page table of an attached volume.

    `rows` is SQL that gives, in the order of the key, its columns (times as microseconds) and
    `row`, the JSON array of the row. Raises `IntegrityError` where they come in another order.
    """
    target = f"{volume}.strata.{table.name}"
    listed = ", ".join(f"{name} {_TYPES[kind]} not null" for name, kind in table.key)
    # DuckDB would find nothing in deflated bytes to compress, after looking for long.
    body = "body blob not null using compression uncompressed"
    con.execute(f"create table {target} (page integer primary key, {listed}, {body})")
    failed: list[BaseException] = []

    def made() -> Iterator[pa.RecordBatch]:
        try:
            yield from _batches(con, table, rows)
        except BaseException as error:
            failed.append(error)
            raise

    # In one statement: each of many would have the whole table written anew at a checkpoint.
    con.register("made_pages", pa.RecordBatchReader.from_batches(_schema(table), made()))
    try:
        con.execute(f"insert into {target} from made_pages")
    except duckdb.Error:
        if failed:  # of which DuckDB has made a text
            raise failed[0] from None
        raise
    con.unregister("made_pages")


def prove_pages(con: Connection, volume: str, table: PageTable, rows: str) -> bool:
    """Whether a page table of an attached volume is what `rows` make; see `write_pages`."""
    with con.cursor() as reading:
        reading.execute(f"from {volume}.strata.{table.name} order by page")
        stored = (row for some in iter(lambda: reading.fetchmany(_READ_PAGES), []) for row in some)
        pages = (
            row
            for batch in _batches(con, table, rows)
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        )
        return all(_is_same(page, other) for page, other in zip_longest(stored, pages))


def _is_same(page: Row | None, other: Row | None) -> bool:
    """Whether two pages have the same rows, however they were deflated."""
    if page is None or other is None or page[:-1] != other[:-1]:
        return False
    try:
        return page[-1] == other[-1] or inflate(page[-1]) == inflate(other[-1])
    except IntegrityError:
        return False


def inflate(body: bytes) -> bytes:
    """The JSON of a page. Raises `IntegrityError` for what is no page."""
    try:
        return isal_zlib.decompress(body, _RAW_DEFLATE)
    except isal_zlib.error as error:  # type: ignore[misc]  # the stub has an instance
        raise IntegrityError(f"a page of rows cannot be inflated: {error}") from error


def page_rows(body: bytes) -> list[list[Any]]:
    """The rows of a page. Raises `IntegrityError` for what is no page."""
    try:
        rows: list[list[Any]] = orjson.loads(inflate(body))
    except orjson.JSONDecodeError as error:
        raise IntegrityError(f"a page of rows is not JSON: {error}") from error
    return rows


@dataclass(frozen=True, slots=True)
class PageIndex:
    """The least keys of the pages of one page table; `name` is the table's."""

    name: str
    columns: tuple[Sequence[Any], ...]

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, page: int) -> Key:
        return tuple(column[page] for column in self.columns)

    def pages(self, low: Key, high: Key) -> range:
        """The pages among which are all rows from one key to another, both included.

        Keys are leading values of the least keys, texts as prefixes where these are; an empty one
        is before, or behind, all.
        """
        begin, _ = self._alike(low)
        _, end = self._alike(high)
        # The rows from `low` on may begin in the page before the first whose least key is `low`.
        return range(max(0, begin - 1) if low else 0, end)

    def _alike(self, key: Key) -> tuple[int, int]:
        """Where the least keys that begin with these values begin and end."""
        begin, end = 0, len(self)
        for column, value in zip(self.columns, key, strict=False):
            if isinstance(column, Texts):
                begin, end = column.left(value, begin, end), column.right(value, begin, end)
            else:
                begin, end = (
                    bisect_left(column, value, begin, end),
                    bisect_right(column, value, begin, end),
                )
        return begin, end


def index_sections(con: Connection, file: str, table: PageTable) -> Sections:
    """The index of a page table in an attached file, as sections of a mapped file."""
    names = ", ".join(name for name, _ in table.key)
    rows = con.execute(f"select {names} from {file}.strata.{table.name} order by page").fetchall()  # noqa: S608
    sections: Sections = {}
    for at, (name, kind) in enumerate(table.key):
        values = [row[at] for row in rows]
        section = f"{table.name}.{name}"
        if kind == "text":
            sections |= texts_sections(section, values)
        else:
            sections[section] = numbers_section(_CODES[kind], values)
    return sections


def held_index(file: Mapped, table: PageTable) -> PageIndex:
    """The index of a page table in a mapped file."""
    columns: tuple[Sequence[Any], ...] = tuple(
        file.texts(section) if kind == "text" else file.numbers(section, _CODES[kind])
        for name, kind in table.key
        for section in [f"{table.name}.{name}"]
    )
    return PageIndex(table.name, columns)


def _schema(table: PageTable) -> pa.Schema:
    key = [(name, _ARROW[kind]) for name, kind in table.key]
    return pa.schema([("page", pa.int32()), *key, ("body", pa.binary())])


def _batches(con: Connection, table: PageTable, rows: str) -> Iterator[pa.RecordBatch]:
    """The pages that rows make, a bounded number at a time."""
    names = [name for name, _ in table.key]
    last: Key = ()
    page_count = 0
    with con.cursor() as reading:
        for batch in _aligned(reading.sql(rows).to_arrow_reader(_BATCH_ROWS)):
            keys = [batch.column(name) for name in names]
            last = _in_order(last, keys, table)
            firsts = [
                [_least(kind, value) for value in column.take(_starts(batch)).to_pylist()]
                for column, (_, kind) in zip(keys, table.key, strict=True)
            ]
            bodies = [*_bodies(batch.column("row"))]
            numbers = [*range(page_count, page_count + len(bodies))]
            page_count += len(bodies)
            yield pa.record_batch([numbers, *firsts, bodies], schema=_schema(table))


_ARROW = {"prefix": pa.uint64(), "text": pa.string(), "time": pa.int64()}


def _starts(batch: pa.RecordBatch) -> pa.Array:
    return pa.array(range(0, len(batch), PAGE_ROWS), pa.int64())


def _least(kind: Kind, value: Any) -> Any:  # noqa: ANN401 - a value of a key
    return prefix(value) if kind == "prefix" else value


def _aligned(reader: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of whole pages, but for the last."""
    batches: list[pa.RecordBatch] = []
    row_count = 0
    for batch in reader:
        batches.append(batch)
        row_count += len(batch)
        if row_count >= _BATCH_ROWS:
            whole = pa.concat_batches(batches)
            cut = row_count // PAGE_ROWS * PAGE_ROWS
            yield whole.slice(0, cut)
            batches, row_count = [whole.slice(cut)], row_count - cut
    if row_count:
        yield pa.concat_batches(batches)


def _in_order(last: Key, keys: Sequence[pa.Array], table: PageTable) -> Key:
    """The last key of a batch, whose first column ascends from the last of the batch before."""
    leading = keys[0]
    first = leading[0].as_py()
    ascend = pc.all(pc.less_equal(leading[:-1], leading[1:])).as_py() is not False
    if not ascend or (last and first < last[0]):
        raise IntegrityError(f"the rows of {table.name} are not in the order of their key")
    return (leading[-1].as_py(),)


def _bodies(rows: pa.Array) -> Iterator[bytes]:
    """The bodies of pages, from the JSON of their rows, each with a comma behind it."""
    _, offsets, data = rows.buffers()
    ends = memoryview(offsets).cast("i" if rows.type == pa.string() else "q")
    text = memoryview(data)
    places = range(rows.offset, rows.offset + len(rows), PAGE_ROWS)
    for begin, end in zip(places, [*islice(places, 1, None), rows.offset + len(rows)], strict=True):
        page = b"".join((b"[", text[ends[begin] : ends[end] - 1], b"]"))
        yield isal_zlib.compress(page, _LEVEL, _RAW_DEFLATE)


def row_sql(values: str) -> str:
    """SQL for the JSON array of some values, as `write_pages` wants it."""
    return f"json_array({values})::varchar || ',' as row"
