"""Key filters: which keys a volume may hold, as Bloom filters; most volumes need not be asked."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from transforms.duck import Connection

# Twelve bits a key and four of them set: one volume in 150 is asked in vain.
_BITS_PER_KEY = 12
_LEAST_BITS = 64
_SLICES = (1, 9, 17, 25)
_SLICE_HEX = 8

Hashes = tuple[int, ...]
"""What a filter knows a key by."""


def key_hashes(key: str) -> Hashes:
    """The hashes of a key, which are the same for every filter."""
    digest = hashlib.md5(key.encode(), usedforsecurity=False).hexdigest()
    return tuple(int(digest[start - 1 : start - 1 + _SLICE_HEX], 16) for start in _SLICES)


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """Which keys a volume may hold: `may_hold` is never wrong about one that it holds."""

    bits: bytes | memoryview

    def may_hold(self, hashes: Hashes) -> bool:
        """Whether a key with these hashes may be there."""
        size = len(self.bits) * 8
        for value in hashes:
            place = value % size
            if not self.bits[place >> 3] >> (7 - (place & 7)) & 1:
                return False
        return True


def filter_sql(con: Connection, table: str, column: str) -> str:
    """SQL for the bits of the filter of a table's column, a blob."""
    counted = f"select count(distinct {column}) from {table}"  # noqa: S608 - our own names
    ((keys,),) = con.execute(counted).fetchall()
    size = max(_LEAST_BITS, (keys * _BITS_PER_KEY + 7) // 8 * 8)
    places = ", ".join(
        f"('0x' || substr(digest, {start}, {_SLICE_HEX}))::ubigint % {size}" for start in _SLICES
    )
    return (
        f"select coalesce(bitstring_agg(place, 0, {size - 1}), "  # noqa: S608 - our own names
        f"repeat('0', {size})::bit)::blob as bits "
        f"from (select unnest([{places}])::bigint as place "
        f"from (select distinct md5({column}) as digest from {table}))"
    )
