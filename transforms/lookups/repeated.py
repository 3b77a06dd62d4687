"""Rows that several volumes have, found by their identities, volume beside volume."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from transforms.lookups.identities import Identities

_TOGETHER = 2**18
_HIGHS = 2**64


def repeated(identities: Iterable[Identities]) -> dict[bytes, int]:
    """The last times, in microseconds, of rows that are held more than once.

    By identity, the 16 bytes of the MD5. Nearly all are there once, of which their first halves
    tell that: nothing else is read where all are.
    """
    halves = [(volume, volume.highs) for volume in identities]
    several = pa.concat_arrays(
        [_array(b"", pa.uint64()), *_several([highs for _, highs in halves])]
    )
    if not len(several):
        return {}
    rows = pa.concat_tables(_rows(halves, several))
    counted = rows.group_by(["high", "low"]).aggregate([("written", "max"), ("written", "count")])
    found = counted.filter(pc.greater(counted.column("written_count"), 1))
    columns = (found.column(name).to_pylist() for name in ("low", "high", "written_max"))
    return {
        low.to_bytes(8, "little") + high.to_bytes(8, "little"): written
        for low, high, written in zip(*columns, strict=True)
    }


def _several(lists: Sequence[memoryview]) -> Iterator[pa.Array]:
    """The numbers that are in ascending lists more than once; a part at a time fits in a cache."""
    parts = sum(map(len, lists)) // _TOGETHER + 1
    begins = [0] * len(lists)
    for part in range(1, parts + 1):
        ends = [bisect_left(each, part * _HIGHS // parts) for each in lists]
        slices = (each[a:b] for each, a, b in zip(lists, begins, ends, strict=True))
        numbers = _array(b"".join(slices), pa.uint64())
        # This takes less than to count: where a number comes first, its code is the next one.
        codes = numbers.dictionary_encode().indices
        is_again = pc.less_equal(codes[1:], pc.cumulative_max(codes)[:-1])
        yield numbers[1:].filter(is_again)
        begins = ends


def _rows(halves: Iterable[tuple[Identities, memoryview]], several: pa.Array) -> Iterator[pa.Table]:
    """The rows of volumes, of which the first halves are given, that have several of these."""
    arrays = [(volume, _array(highs, pa.uint64())) for volume, highs in halves]
    is_among, begin = pc.is_in(pa.concat_arrays([high for _, high in arrays]), several), 0
    for volume, high in arrays:
        chosen = is_among.slice(begin, len(high))
        begin += len(high)
        if chosen.true_count:
            low, written = _array(volume.lows, pa.uint64()), _array(volume.written, pa.int64())
            yield pa.table({"high": high, "low": low, "written": written}).filter(chosen)


def _array(numbers: bytes | memoryview, kind: pa.DataType) -> pa.Array:
    """64-bit numbers where they are: nothing is copied."""
    buffer = pa.py_buffer(numbers)
    return pa.Array.from_buffers(kind, buffer.size // 8, [None, buffer])
