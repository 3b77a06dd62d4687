"""Bytes that are compared with a proof each time they are read.

Disks and networks change bytes, and neither a file's size and time nor an object's ETag tells.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from isal.isal_zlib import crc32

from exporters.zips.sources import ByteSource
from transforms.errors import IntegrityError
from transforms.stores.store import CHUNK_BYTES
from transforms.verifying.proofs import Proof, Proofs

BLOCK_BYTES = 256 * 1024
"""How many bytes one CRC-32 is about."""

_DIGITS = 8
_TRIES = 3


@dataclass(frozen=True, slots=True)
class ProvenSource:
    """A source with the CRC-32 of each block, in hex, in its proof's digest.

    If a block no longer has its CRC-32, the proof is removed from `proofs`.
    """

    source: ByteSource
    proof: Proof
    proofs: Proofs

    @property
    def name(self) -> str:
        """The name of the source."""
        return self.source.name

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return self.source.size

    @property
    def version(self) -> str:
        """The version of the source."""
        return self.source.version

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`.

        Raises `IntegrityError` if a block has other bytes each time it is read.
        """
        first = offset // BLOCK_BYTES
        begin, end = first * BLOCK_BYTES, min(offset + length, self.size)
        stop = min(-(-end // BLOCK_BYTES) * BLOCK_BYTES, self.size)
        for _ in range(_TRIES):
            data = self.source.read(begin, max(stop - begin, 0))
            if self.proof.digest.startswith(_block_crcs(data), first * _DIGITS):
                return data[offset - begin : end - begin]
        self.proofs.forget(self.proof.place)
        raise IntegrityError(
            f"{self.name} no longer has the bytes from {begin} to {stop} that it was proven to "
            "have: a disk, a network card or a proxy changes them; ask again, and another copy is "
            "taken if the file stays damaged (strata verify tells what mends it)"
        )


def digests(source: ByteSource) -> tuple[str, str, bytes]:
    """The SHA-256 of a source, the CRC-32 of each of its blocks, and the last bytes read."""
    digest, crcs, data = hashlib.sha256(), "", b""
    for offset in range(0, source.size, CHUNK_BYTES):
        data = source.read(offset, min(CHUNK_BYTES, source.size - offset))
        digest.update(data)
        crcs += _block_crcs(data)
    return digest.hexdigest(), crcs, data


def _block_crcs(data: bytes) -> str:
    """The CRC-32 of each block of bytes that begin with one, in hex."""
    view = memoryview(data)
    blocks = (view[at : at + BLOCK_BYTES] for at in range(0, len(data), BLOCK_BYTES))
    return "".join(f"{crc32(block):0{_DIGITS}x}" for block in blocks)
