"""Bytes of an object that come over a network, held against what they were proven to be."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporters.zips.sources import BLOCK_BYTES, CheckedSource, block_crcs
from tests.exporters.part_kit import MemorySource
from transforms.errors import IntegrityError

_DATA = bytes(range(256)) * (BLOCK_BYTES // 256 * 3) + b"the last block is short"
_SIZE = len(_DATA)


@dataclass
class _Network:
    """Gives the data, with a bit flipped in the first answers."""

    flips: int
    name: str = "s3://bucket/a.zip"
    size: int = _SIZE
    version: str = "proven"
    answers: list[int] = field(default_factory=list)

    def read(self, offset: int, length: int) -> bytes:
        data = bytearray(_DATA[offset : offset + length])
        if data and len(self.answers) < self.flips:
            data[len(data) // 2] ^= 4
        self.answers.append(len(data))
        return bytes(data)

    def descriptor(self) -> None:
        """None: it is no file."""


@given(offset=st.integers(0, _SIZE), length=st.integers(0, _SIZE), flips=st.integers(0, 2))
@example(offset=0, length=_SIZE, flips=2)
@example(offset=BLOCK_BYTES, length=BLOCK_BYTES, flips=1)
@example(offset=_SIZE - 1, length=5, flips=1)
def test_what_is_read_is_what_was_proven(offset: int, length: int, flips: int) -> None:
    network = _Network(flips)
    source = CheckedSource(network, block_crcs(_DATA))

    assert source.read(offset, length) == _DATA[offset : offset + length]
    assert max(network.answers) <= length + 2 * BLOCK_BYTES


def test_bytes_that_arrive_changed_each_time_are_an_error() -> None:
    source = CheckedSource(_Network(3), block_crcs(_DATA))

    with pytest.raises(IntegrityError, match=r"a\.zip arrives with other bytes from 0 to 262144"):
        source.read(100, 10)


def test_a_block_that_comes_short_is_an_error() -> None:
    source = CheckedSource(MemorySource("a.zip", _DATA[:-1]), block_crcs(_DATA))

    with pytest.raises(IntegrityError, match="other bytes"):
        source.read(3 * BLOCK_BYTES, 5)
