"""Rows that several volumes have, found by their identities, volume beside volume."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from transforms.lookups.identities import Identities

_TOGETHER = 2**18
_HIGHS = 2**64


def repeated(lists: Sequence[Identities]) -> dict[bytes, int]:
    """The last times, in microseconds, of rows that are held more than once.

    By identity, the 16 bytes of the MD5.
    """
    times: dict[bytes, int] = {}
    for table in _parts(lists):
        counted = table.group_by(["high", "low"]).aggregate(
            [("written", "max"), ("written", "count")]
        )
        several = counted.filter(pc.greater(counted.column("written_count"), 1))
        names = ("low", "high", "written_max")
        columns = (several.column(name).to_pylist() for name in names)
        for low, high, written in zip(*columns, strict=True):
            times[low.to_bytes(8, "little") + high.to_bytes(8, "little")] = written
    return times


def _parts(lists: Sequence[Identities]) -> Iterator[pa.Table]:
    """Identities that may be there several times, equal ones in one table.

    A bounded number is looked at together. Nearly all are there once, of which their first halves
    tell that in half of the time.
    """
    parts = sum(len(ids.highs) for ids in lists) // _TOGETHER + 1
    for part in range(parts):
        low, high = part * _HIGHS // parts, (part + 1) * _HIGHS // parts
        table = _table([_between(ids, low, high) for ids in lists])
        counts = pc.value_counts(table["high"])
        several = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        yield table.filter(pc.is_in(table["high"], several))


def _between(ids: Identities, low: int, high: int) -> Identities:
    begin, end = bisect_left(ids.highs, low), bisect_left(ids.highs, high)
    return Identities(ids.highs[begin:end], ids.lows[begin:end], ids.written[begin:end])


def _table(lists: Sequence[Identities]) -> pa.Table:
    columns = {
        "high": pa.chunked_array([_array(ids.highs, pa.uint64()) for ids in lists], pa.uint64()),
        "low": pa.chunked_array([_array(ids.lows, pa.uint64()) for ids in lists], pa.uint64()),
        "written": pa.chunked_array([_array(ids.written, pa.int64()) for ids in lists], pa.int64()),
    }
    return pa.table(columns)


def _array(numbers: Sequence[int], kind: pa.DataType) -> pa.Array:
    """Numbers where they are: nothing is copied."""
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])
