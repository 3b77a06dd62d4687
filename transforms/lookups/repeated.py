"""Rows that several volumes have, found by their identities, volume beside volume."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from transforms.lookups.identities import Identities

_TOGETHER = 2**18
_HIGHS = 2**64


@dataclass(frozen=True, slots=True)
class Repeated:
    """The rows that are held more than once, in some volumes.

    `times` are their last times, in microseconds, by identity, the 16 bytes of the MD5. `highs` are
    the first halves of the identities of all rows, by the path of their index file.
    """

    highs: Mapping[Path, memoryview] = field(default_factory=dict)
    times: Mapping[bytes, int] = field(default_factory=dict)


def repeated(identities: Iterable[Identities], former: Repeated | None = None) -> Repeated:
    """Find the rows that are held more than once; `former` is what was found of other volumes.

    Nearly all are there once, of which their first halves tell that: nothing else is read where all
    are, and nothing of the volumes that are known.
    """
    known, fresh = former.highs if former else {}, dict[Path, memoryview]()
    volumes = dict[Path, Identities]()
    for volume in identities:  # each is read before the next one is opened
        path = volume.index.path
        volumes[path] = volume
        if path not in known:
            fresh[path] = volume.highs
    highs = {path: known[path] for path in volumes if path in known} | fresh
    is_larger = len(highs) == len(known) + len(fresh)
    if former and is_larger and _are_others(known.values(), fresh.values()):
        return Repeated(highs, former.times)
    several = pa.concat_arrays([_array(b"", pa.uint64()), *_several([*highs.values()])])
    if not len(several):
        return Repeated(highs)
    rows = pa.concat_tables(_rows([(volumes[path], highs[path]) for path in highs], several))
    counted = rows.group_by(["high", "low"]).aggregate([("written", "max"), ("written", "count")])
    found = counted.filter(pc.greater(counted.column("written_count"), 1))
    columns = (found.column(name).to_pylist() for name in ("low", "high", "written_max"))
    times = {
        low.to_bytes(8, "little") + high.to_bytes(8, "little"): written
        for low, high, written in zip(*columns, strict=True)
    }
    return Repeated(highs, times)


def _are_others(known: Iterable[memoryview], fresh: Iterable[memoryview]) -> bool:
    """Whether all fresh numbers are there once, and none of them is known."""
    numbers = _numbers(fresh).combine_chunks()
    is_known = pc.is_in(_numbers(known), value_set=numbers)
    return len(numbers.unique()) == len(numbers) and not pc.any(is_known).as_py()


def _numbers(lists: Iterable[memoryview]) -> pa.ChunkedArray:
    return pa.chunked_array([_array(each, pa.uint64()) for each in lists], pa.uint64())


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
