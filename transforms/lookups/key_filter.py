"""Key filters: which index files cannot have a key, told from memory.

A history has dozens of index files, and hundreds before they are merged; asking one takes some 25
microseconds even where it has no row of a key. So a file has a Bloom filter for the first
values of each page table's keys that are texts: a fact of as many bits as a power of two has, at
least ten for each value, of which every value sets four. Of a hundred values that a file does not
have it holds about one for possible.

Files with more values than `MOST_KEYS` have none: there are few of them, as they were merged, and
all of them can be asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import md5

from transforms.duck import Connection

MOST_KEYS = 1_000_000
"""How many values a filter has at the most; it then takes 2 MiB."""

_BITS_FOR_KEY = 10
_PROBES = 4
_LEAST_BITS = 64
_HALF = 2**32
_KEPT_KEYS = 1024


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """A filter: its bits, of which the first is the highest of the first byte; without any none."""

    bits: bytes

    def may_have(self, value: str) -> bool:
        """Whether a file may have a value; never False for one that it has."""
        bits = self.bits
        last = 8 * len(bits) - 1
        for place in _places(value) if bits else ():
            at = place & last
            if not bits[at >> 3] & (128 >> (at & 7)):
                return False
        return True


@lru_cache(_KEPT_KEYS)  # a request asks many files for the same value
def _places(value: str) -> tuple[int, ...]:
    """The places of a value in a filter without end, as `filter_bits` has them in SQL."""
    digest = md5(value.encode("utf-8", "replace"), usedforsecurity=False).digest()
    low, step = (int.from_bytes(digest[at : at + 4], "little") for at in (8, 12))
    return tuple(low + turn * step for turn in range(_PROBES))


def filter_bits(con: Connection, column: str, rows: str) -> bytes:
    """The bits of the filter of a column's values in some rows, both given in SQL; "" for none.

    No bytes where there are too many values.
    """
    if not rows:
        return bytes(_bit_count(0) // 8)
    values = f"(select distinct {column} as value from {rows} where {column} is not null)"  # noqa: S608
    ((count,),) = con.execute(f"select count(*) from {values}").fetchall()  # noqa: S608
    if count > MOST_KEYS:
        return b""
    size = _bit_count(count)
    if not count:
        return bytes(size // 8)
    places = ", ".join(f"((low + {turn} * step) % {size})::bigint" for turn in range(_PROBES))
    ((bits,),) = con.execute(
        f"select bitstring_agg(place, 0, {size - 1})::blob from ("  # noqa: S608 - our own
        f"select unnest([{places}]) as place from ("
        f"select (half % {_HALF})::hugeint as low, (half // {_HALF})::hugeint as step from ("
        f"select md5_number_lower(value) as half from {values})))"
    ).fetchall()
    return bytes(bits)


def _bit_count(count: int) -> int:
    """How many bits the filter of so many values has."""
    return 1 << max(_LEAST_BITS, _BITS_FOR_KEY * count).bit_length()
