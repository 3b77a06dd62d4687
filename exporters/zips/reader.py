"""Reading back what `zipfmt` wrote, from the tail of a ZIP; nothing in it is taken on trust.

Only names and private fields are parsed. Every other number follows from them, so the directory is
written again and must come out the same: sizes, CRC-32s, offsets, and no byte out of place.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from isal import isal_zlib

from exporters.zips.container import (
    END,
    END64,
    END64_SIGNATURE,
    END_SIGNATURE,
    FIELD,
    FIELD_FORMAT,
    FIELD_ID,
    LOCATOR,
    MAX16,
    MAX32,
    RECORD_BYTES,
    RECORD_SIGNATURE,
    Member,
    directory_record,
    end_records,
)
from exporters.zips.layout import Slice
from exporters.zips.runs import Run
from exporters.zips.sources import ByteSource, read_exactly
from transforms.errors import IntegrityError

# One read brings the whole directory of nearly every ZIP: a record takes about 150 bytes.
_TAIL_BYTES = 4 * 1024
# Where a directory record has the lengths of its name and extra fields.
_LENGTHS_AT = 28
# Deflate's limit: 258 bytes of text in 2 bits.
_MOST_PLAIN_PER_BYTE = 1032


def read_members(source: ByteSource) -> tuple[Member, ...]:
    """The members of a ZIP that this package wrote, in order.

    Raises `IntegrityError` naming the source and what is wrong with it: truncated, foreign (no
    private field), or a directory that contradicts itself.
    """
    tail = read_exactly(source, max(0, source.size - _TAIL_BYTES), min(source.size, _TAIL_BYTES))
    count, size, start, ends = _end(source, tail)
    if start + size + len(ends) != source.size:
        raise _bad(source, f"the directory should end the file, but it is at bytes {start}+{size}")
    records = (
        tail[-size - len(ends) : -len(ends)]
        if size + len(ends) <= len(tail)
        else read_exactly(source, start, size)
    )
    members = tuple(_members(source, records))
    filled = members[-1].end if members else 0
    if filled != start:
        raise _bad(source, f"its members end at byte {filled}, its directory starts at {start}")
    if len(members) != count or ends != end_records(count, start, size):
        raise _bad(source, f"its end record counts {count} members, its directory {len(members)}")
    return members


def _end(source: ByteSource, tail: bytes) -> tuple[int, int, int, bytes]:
    """The number of records, the directory's size and start (bytes), the end records themselves."""
    end = tail[-END.size :]
    if len(end) < END.size or not end.startswith(END_SIGNATURE):
        raise _bad(source, "no end record: it is truncated or no ZIP of this archive")
    _, _, _, _, count, size, start, _ = END.unpack(end)
    if count < MAX16 and size < MAX32 and start < MAX32:
        return count, size, start, end
    ends = tail[-END64.size - LOCATOR.size - END.size :]
    if not ends.startswith(END64_SIGNATURE):
        raise _bad(source, "no ZIP64 end record where its end record refers to one")
    *_, count, size, start = END64.unpack_from(ends)
    return count, size, start, ends


def _members(source: ByteSource, records: bytes) -> Iterator[Member]:
    at = offset = 0
    while at < len(records):
        if len(records) - at < RECORD_BYTES or not records.startswith(RECORD_SIGNATURE, at):
            raise _bad(source, f"byte {at} of its directory starts no record")
        name_length, extra_length = struct.unpack_from("<HH", records, at + _LENGTHS_AT)
        name_start = at + RECORD_BYTES
        name_end = name_start + name_length
        record_end = name_end + extra_length
        name = records[name_start:name_end].decode(errors="replace")
        member = _member(source, name, offset, records[name_end:record_end])
        if records[at:record_end] != directory_record(member):
            raise _bad(
                source, f"the sizes, CRC-32 or offset of {name} contradict its own private field"
            )
        yield member
        at, offset = record_end, member.end


def _member(source: ByteSource, name: str, offset: int, extra: bytes) -> Member:
    at = 0
    while at + 4 <= len(extra):
        field, length = struct.unpack_from("<HH", extra, at)
        data = extra[at + 4 : at + 4 + length]
        if field == FIELD_ID and len(data) == FIELD.size and data[0] == FIELD_FORMAT:
            numbers = FIELD.unpack(data)
            header, body = Run(*numbers[1:4]), Run(*numbers[4:7])
            _check_lengths(source, name, header, body)
            return Member(name, offset, header, body, numbers[7])
        at += 4 + length
    raise _bad(
        source, f"{name} has no private field of format {FIELD_FORMAT}: it was not made here"
    )


def _check_lengths(source: ByteSource, name: str, *runs: Run) -> None:
    for run in runs:
        if run.deflated > source.size or run.plain > run.deflated * _MOST_PLAIN_PER_BYTE:
            raise _bad(source, f"the run lengths of {name} are impossible")


def _bad(source: ByteSource, what: str) -> IntegrityError:
    return IntegrityError(f"{source.name} cannot be spliced: {what}")


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
