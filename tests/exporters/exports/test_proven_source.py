"""Bytes of an object that come over a network, compared with what they were proven to be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporters.exports.proven_source import BLOCK_BYTES, ProvenSource, digests
from exporters.zips.sources import ObjectSource
from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo, ObjectReader
from transforms.verifying.proofs import Proof, Proofs

_DATA = bytes(range(256)) * (BLOCK_BYTES // 256 * 3) + b"the last block is short"
_SIZE = len(_DATA)


@dataclass
class _Network:
    """Reads the data, with a bit flipped in the first answers."""

    flips: int
    data: bytes = _DATA
    answers: list[int] = field(default_factory=list)

    def describe(self, key: str = "") -> str:
        return f"s3://bucket/{key}"

    def read(
        self, _key: str, start: int = 0, length: int | None = None, *, version: str | None = None
    ) -> bytes:
        assert version == "proven"
        data = bytearray(self.data[start:][:length])
        if data and len(self.answers) < self.flips:
            data[len(data) // 2] ^= 4
        self.answers.append(len(data))
        return bytes(data)


def _source(network: _Network) -> ProvenSource:
    def object_of(network: _Network) -> ObjectSource:
        info = ObjectInfo("a.zip", len(network.data), "sha256")
        return ObjectSource(cast(ObjectReader, network), info, "proven")

    _, crcs, _ = digests(object_of(_Network(0)))
    proofs, proof = Proofs(), Proof("a place", "proven", "sha256", crcs)
    proofs.keep(proof)
    return ProvenSource(object_of(network), proof, proofs)


@given(offset=st.integers(0, _SIZE), length=st.integers(0, _SIZE), flips=st.integers(0, 2))
@example(offset=0, length=_SIZE, flips=2)
@example(offset=BLOCK_BYTES, length=BLOCK_BYTES, flips=1)
@example(offset=_SIZE - 1, length=5, flips=1)
def test_what_is_read_is_what_was_proven(offset: int, length: int, flips: int) -> None:
    network = _Network(flips)
    source = _source(network)

    assert source.read(offset, length) == _DATA[offset : offset + length]
    assert max(network.answers) <= length + 2 * BLOCK_BYTES


def test_bytes_that_arrive_changed_each_time_are_an_error() -> None:
    source = _source(_Network(3))

    with pytest.raises(IntegrityError, match=r"a\.zip no longer has the bytes from 0 to 262144"):
        source.read(100, 10)
    assert source.proofs.find("a place", "proven", "sha256") is None


def test_a_block_that_comes_short_is_an_error() -> None:
    source = _source(_Network(0, _DATA[:-1]))

    with pytest.raises(IntegrityError, match="no longer has the bytes"):
        source.read(3 * BLOCK_BYTES, 5)
