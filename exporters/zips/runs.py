"""Raw deflate runs: CSV text compressed so that it can be joined to its neighbours untouched.

A run is compressed by itself and ended by a full flush. It starts without a window, so it refers
to nothing before it, and it ends on a byte, so any other run may follow. The header line of a CSV
is one run, its rows are another; runs one after the other and `STREAM_END` are a deflate stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from isal import isal_zlib

from transforms.errors import ConfigError

STREAM_END = b"\x03\x00"
"""The final, empty block: it ends the deflate stream of a CSV, whatever runs came before."""

# Level 3 is left out on purpose: with and without AVX-512 it writes different bytes, so two workers
# would publish two archives. Levels 0 to 2 agree on every x86-64 processor since SSE 4.2.
LEVELS = (0, 1, 2)
# On order rows level 2 saves 1 % at most and takes 10 to 25 % longer (tests/benchmarks/splice.py).
DEFAULT_LEVEL = 1

# The compressor's output depends on how its input is cut, so it is always cut the same way.
_FEED_BYTES = 256 * 1024

# Without a history, ISA-L's first step mixes the address of its own state into the table of what
# was seen (igzip_icf_body_h1_gr_bt.asm: the register it hashes was never set), and one run in some
# ten thousand gets other bytes. With a history it does not take that step. This history is of
# bytes that no UTF-8 text holds, so no run refers to it.
_HISTORY = b"\xff" * 8


@dataclass(frozen=True, slots=True)
class Run:
    """The lengths, in bytes, of some deflate runs and the CRC-32 of the text they hold."""

    deflated: int = 0
    plain: int = 0
    crc32: int = 0

    @classmethod
    def joined(cls, deflated: Iterable[int], plain: Iterable[int], crcs: Iterable[int]) -> Run:
        """Many runs, one after the other, by their lengths and CRC-32s."""
        lengths = [*plain]
        crc = 0
        for following, length in zip(crcs, lengths, strict=True):
            crc = isal_zlib.crc32_combine(crc, following, length)
        return cls(sum(deflated), sum(lengths), crc)

    def __add__(self, following: Run) -> Run:
        """These runs and then `following`."""
        return Run(
            self.deflated + following.deflated,
            self.plain + following.plain,
            isal_zlib.crc32_combine(self.crc32, following.crc32, following.plain),
        )


def checked_level(level: int) -> int:
    """Return `level` if it can be used; raises `ConfigError` otherwise."""
    if level not in LEVELS:
        raise ConfigError(
            f"{level} is not a deflate level of the exporters: use 0 (fastest), 1 or 2 (smallest); "
            "higher levels write different bytes on different processors"
        )
    return level


def in_blocks(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Cut pieces of any length into blocks of `size` bytes; only the last may be shorter."""
    buffer = bytearray()
    for piece in pieces:
        view = memoryview(piece)
        while len(buffer) + len(view) >= size:
            room = size - len(buffer)
            is_whole = not buffer and room == len(piece)
            yield piece if is_whole else bytes(buffer) + view[:room]
            buffer.clear()
            view = view[room:]
        buffer += view
    if buffer:
        yield bytes(buffer)


def deflate(text: Iterable[bytes], write: Callable[[bytes], object], level: int) -> Run:
    """Compress `text` into one run and pass it to `write`; memory stays bounded.

    The same text gives the same bytes, however it is cut into pieces. No text gives no bytes.
    Raises `ValueError` for what cannot be UTF-8.
    """
    compressor = isal_zlib.compressobj(
        checked_level(level), wbits=-isal_zlib.MAX_WBITS, zdict=_HISTORY
    )
    deflated = plain = crc = 0
    for block in in_blocks(text, _FEED_BYTES):
        if (at := block.find(_HISTORY[:1])) >= 0:
            raise ValueError(f"byte FF at {plain + at} of a CSV's text: no UTF-8 text holds it")
        plain += len(block)
        crc = isal_zlib.crc32(block, crc)
        squeezed = compressor.compress(block)
        deflated += len(squeezed)
        write(squeezed)
    if plain:
        last = compressor.flush(isal_zlib.Z_FULL_FLUSH)
        deflated += len(last)
        write(last)
    return Run(deflated, plain, crc)
