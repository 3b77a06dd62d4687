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

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
from isal import isal_zlib

from transforms.duck import Connection

MOST_KEYS = 1_000_000
"""How many values a filter has at the most; it then takes 2 MiB."""

_BITS_FOR_KEY = 10
_LEAST_BITS = 64
_WORD = 64
# Odd, with as many ones as noughts: the upper bits of a product depend on all of a hash.
_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)
_KEPT_KEYS = 1024


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """A filter: its bits, of which the first is the highest of the first byte; without any none."""

    bits: bytes

    def may_have(self, value: str) -> bool:
        """Whether a file may have a value; never False for one that it has."""
        bits = self.bits
        unused = _WORD - (8 * len(bits) - 1).bit_length()
        for product in _products(value) if bits else ():
            at = product >> unused
            if not bits[at >> 3] & (128 >> (at & 7)):
                return False
        return True


@lru_cache(_KEPT_KEYS)  # a request asks many files for the same value
def _products(value: str) -> tuple[int, ...]:
    """The numbers whose upper bits are the places of a value in a filter."""
    (key_hash,) = key_hashes([value.encode("utf-8", "replace")])
    return tuple(key_hash * factor % 2**_WORD for factor in _FACTORS)


def key_hashes(values: Iterable[bytes]) -> Iterable[int]:
    """The hashes by which values are told apart: their CRC-32."""
    return map(isal_zlib.crc32, values)


def filter_bits(con: Connection, hashes: array[int]) -> bytes:
    """The bits of the filter of values with these hashes; none where there are too many."""
    if len(hashes) > MOST_KEYS:
        return b""
    length = max(_LEAST_BITS, _BITS_FOR_KEY * len(hashes)).bit_length()
    if not hashes:
        return bytes(2**length // 8)
    buffers = [None, pa.py_buffer(hashes)]
    values = pa.Array.from_buffers(pa.uint32(), len(hashes), buffers).cast(pa.uint64())
    products = (pc.multiply(values, pa.scalar(factor, pa.uint64())) for factor in _FACTORS)
    unused = pa.scalar(_WORD - length, pa.uint64())
    places = [pc.shift_right(product, unused).cast(pa.int64()) for product in products]
    # In Python a loop over a million values takes half a second.
    relation = con.from_arrow(pa.table({"place": pa.chunked_array(places)}))
    query = f"bitstring_agg(place, 0, {2**length - 1})::blob"
    ((bits,),) = relation.aggregate(query).fetchall()
    return bytes(bits)
