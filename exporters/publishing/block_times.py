"""When the blocks of a published CSV were made, from its own first and last row."""

from __future__ import annotations

from exporters.zips.container import Member
from exporters.zips.inflate import read_csv
from exporters.zips.sources import ByteSource
from transforms.bounds import lower_bound, rfc3339
from transforms.errors import RangeError
from transforms.tables.registry import TableSchema

_LINE = 4096  # bytes; a row of blocks has a time, a height and a hash


def block_times(source: ByteSource, member: Member, schema: TableSchema) -> tuple[str, str] | None:
    """The times of the first and last block in a CSV of `blocks`, whose rows ascend by time.

    None for any other table, without rows, and where a cell is no time. Raises `IntegrityError`
    where the CSV is damaged.
    """
    if schema.table != "blocks" or "vega_time" not in schema.names or member.rows == 0:
        return None
    place = schema.names.index("vega_time")
    start = end = b""
    for block in read_csv(source, member):
        if start.count(b"\n") < 2:
            start += block
        end = end[-_LINE:] + block
    lines = (start.split(b"\n", 2)[1], end.rstrip(b"\n").rpartition(b"\n")[2])
    try:
        first, last = (
            lower_bound(line.decode(errors="replace").split(",")[place]).micros for line in lines
        )
    except (RangeError, IndexError):
        return None
    return None if first is None or last is None else (rfc3339(first), rfc3339(last))
