"""The CSV text inside a ZIP of this archive, checked while it is read."""

from __future__ import annotations

from collections.abc import Iterator

from isal import isal_zlib

from exporters.zips.container import Member
from exporters.zips.layout import Slice
from exporters.zips.sources import ByteSource
from transforms.errors import IntegrityError

_BLOCK_BYTES = 1024 * 1024


def read_csv(source: ByteSource, member: Member) -> Iterator[bytes]:
    """Yield the text of a member in blocks of at most 1 MiB.

    Raises `IntegrityError` naming the ZIP and the member where the text is not what the directory
    promises: a broken stream, another length, another CRC-32. It may come after the last block.
    """
    whole = member.whole
    length = crc = 0
    for block in _inflated(source, member):
        length += len(block)
        crc = isal_zlib.crc32(block, crc)
        yield block
    if (length, crc) != (whole.plain, whole.crc32):
        raise IntegrityError(
            f"{member.name} in {source.name} holds {length} bytes with CRC-32 {crc:08x}; its "
            f"directory records {whole.plain} with {whole.crc32:08x}: make it again"
        )


def _inflated(source: ByteSource, member: Member) -> Iterator[bytes]:
    stream = isal_zlib.decompressobj(wbits=-isal_zlib.MAX_WBITS)
    surplus = False
    data = Slice(source, member.data_offset, member.whole.deflated)
    try:
        for piece in data.read(0, data.length):
            pending, surplus = piece, stream.eof
            while pending and not stream.eof:
                yield stream.decompress(pending, _BLOCK_BYTES)
                pending = stream.unconsumed_tail
    except isal_zlib.error as error:  # type: ignore[misc]  # the stub has an instance
        raise IntegrityError(
            f"{member.name} in {source.name} does not inflate ({error}): make it again"
        ) from error
    if not stream.eof or stream.unused_data or surplus:
        raise IntegrityError(
            f"{member.name} in {source.name} does not end where its directory says: make it again"
        )
