"""The text of rows as CSVs have it, which DuckDB makes a line at a time: a stream of bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from transforms.duck import Connection, quote_name, quote_text
from transforms.tables.conform import is_plain, rendered
from transforms.tables.dialect import line_sql, select_list
from transforms.tables.registry import TableSchema

# As many as DuckDB makes at once: their text is in the processor's cache while it is compared.
_BATCH_ROWS = 2048


class RowText:
    """The lines of rows one after the other; a bounded number of rows is in memory."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest = memoryview(b"")

    def read(self, size: int) -> bytes:
        """As many of the next bytes; fewer only at the end. Raises what a statement does."""
        parts = []
        while size:
            part = self._rest[:size]
            parts.append(part)
            self._rest, size = self._rest[len(part) :], size - len(part)
            if not self._rest:
                batch = next(self._batches, None)
                if batch is None:
                    break
                self._rest = _bytes(batch.column(0))
        return b"".join(parts)


def _bytes(lines: pa.Array) -> memoryview:
    """The bytes of texts, one after the other."""
    _, offsets, data = lines.buffers()
    ends = memoryview(offsets).cast("i" if lines.type in (pa.string(), pa.binary()) else "q")
    begin, end = ends[lines.offset], ends[lines.offset + len(lines)]
    return memoryview(data or b"")[begin:end]


@contextmanager
def row_text(
    con: Connection, rows: str, schema: TableSchema, *, raw: bool, null: str = ""
) -> Iterator[RowText]:
    """Render rows, which lie in the order of their CSVs, without a header.

    `rows` is SQL, with its condition; unless `raw`, none keeps a text.
    """
    columns = [(column, quote_name(column.name)) for column in schema.columns]
    line = line_sql([(name, is_plain(schema.table, column)) for column, name in columns], null)
    if raw:  # few rows do
        texts = [(f"coalesce(_raw[{quote_text(c.name)}], {name})", False) for c, name in columns]
        line = f"case when _raw is null then {line} else {line_sql(texts, null)} end"
    values = [(rendered(schema.table, column, raw=False), column.name) for column, _ in columns]
    query = f"select {line} from (select {select_list([*values, ('_raw', '_raw')])} from {rows})"  # noqa: S608 - names are quoted
    with con.cursor() as reading:
        yield RowText(reading.sql(query).to_arrow_reader(_BATCH_ROWS))
