"""The ZIP container in pure bytes: records of members whose lengths and CRC-32s are all known.

No data descriptors, no comments, a fixed timestamp, ZIP64 only where a number needs it: the same
members give the same bytes. Members follow each other without a gap from byte 0 to the directory.
Each directory record carries a private extra field (docs/formats.md), little-endian, which says
where a CSV's header run ends: all that splicing needs to know.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from isal import isal_zlib

from exporters.zips.runs import STREAM_END, Run

FIELD_ID = 0x7453
FIELD_FORMAT = 1
FIELD = struct.Struct("<BQQIQQIQI")
_SEALED = struct.Struct("<BQQIQQIQ")
RECORD_SIGNATURE = b"PK\x01\x02"
RECORD_BYTES = 46
END = struct.Struct("<4sHHHHIIH")
END_SIGNATURE = b"PK\x05\x06"
END64 = struct.Struct("<4sQHHIIQQQQ")
END64_SIGNATURE = b"PK\x06\x06"
LOCATOR = struct.Struct("<4sIQI")
_LOCATOR_SIGNATURE = b"PK\x06\x07"
_LOCAL_SIGNATURE = b"PK\x03\x04"
_LOCAL_BYTES = 30
_LOCAL_WIDE = struct.Struct("<HHQQ")
_SHARED = struct.Struct("<HHHHHIII")

MAX16, MAX32 = 0xFFFF, 0xFFFFFFFF  # these very values mean: look in the ZIP64 record
_ZIP64_ID = 0x0001
_PLAIN_ZIP, _ZIP64 = 20, 45  # the format versions 2.0 and 4.5
_UNIX = 3 << 8
_DEFLATE = 8
_UTF8 = 0x0800
_MIDNIGHT, _1980_01_01 = 0, 0x0021
_REGULAR_FILE = 0o100644 << 16


@dataclass(frozen=True)
class Member:
    """One CSV in a ZIP: its name, where its local header starts (bytes), its runs, its rows."""

    name: str
    offset: int
    header: Run
    body: Run
    rows: int

    @cached_property
    def whole(self) -> Run:
        """The member as the ZIP counts it, with the block that ends its deflate stream."""
        both = self.header + self.body
        return Run(both.deflated + len(STREAM_END), both.plain, both.crc32)

    @cached_property
    def data_offset(self) -> int:
        """Where the header run starts, in bytes."""
        return self.offset + local_header_size(self.name, self.whole.deflated, self.whole.plain)

    @property
    def end(self) -> int:
        """Where the next member, or the directory, starts, in bytes."""
        return self.data_offset + self.whole.deflated


def local_header_size(name: str, deflated: int, plain: int) -> int:
    """How many bytes stand before the data of a member with that name and these lengths."""
    extra = _LOCAL_WIDE.size if _is_wide(deflated, plain) else 0
    return _LOCAL_BYTES + len(name.encode()) + extra


def _is_wide(deflated: int, plain: int) -> bool:
    """Whether a local header needs ZIP64 form: unlike a directory record, of both sizes or none."""
    return deflated >= MAX32 or plain >= MAX32


def local_header(member: Member) -> bytes:
    """The record that stands before the member's data."""
    name, whole = member.name.encode(), member.whole
    sizes, extra = (whole.deflated, whole.plain), b""
    wide = _is_wide(*sizes)
    if wide:
        extra = _LOCAL_WIDE.pack(_ZIP64_ID, 16, whole.plain, whole.deflated)
        sizes = (MAX32, MAX32)
    shared = _shared(member, _ZIP64 if wide else _PLAIN_ZIP, *sizes)
    lengths = struct.pack("<HH", len(name), len(extra))
    return _LOCAL_SIGNATURE + shared + lengths + name + extra


def directory_record(member: Member) -> bytes:
    """The member's record in the central directory, with the private field."""
    name, whole = member.name.encode(), member.whole
    numbers = (whole.plain, whole.deflated, member.offset)
    wide = [number for number in numbers if number >= MAX32]
    plain, deflated, offset = (min(number, MAX32) for number in numbers)
    extra = struct.pack(f"<HH{len(wide)}Q", _ZIP64_ID, 8 * len(wide), *wide) if wide else b""
    extra += _private_field(member)
    needed = _ZIP64 if wide else _PLAIN_ZIP
    made_by = struct.pack("<H", _UNIX | needed)
    shared = _shared(member, needed, deflated, plain)
    rest = struct.pack("<HHHHHII", len(name), len(extra), 0, 0, 0, _REGULAR_FILE, offset)
    return RECORD_SIGNATURE + made_by + shared + rest + name + extra


def end_records(count: int, start: int, size: int) -> bytes:
    """What follows a directory of `count` records that lies in `size` bytes from byte `start`."""
    shown = min(count, MAX16)
    end = END.pack(END_SIGNATURE, 0, 0, shown, shown, min(size, MAX32), min(start, MAX32), 0)
    if count < MAX16 and size < MAX32 and start < MAX32:
        return end
    made_by, length = _UNIX | _ZIP64, END64.size - 12  # the length does not count its own field
    end64 = END64.pack(END64_SIGNATURE, length, made_by, _ZIP64, 0, 0, count, count, size, start)
    return end64 + LOCATOR.pack(_LOCATOR_SIGNATURE, 0, start + size, 1) + end


def directory(members: Sequence[Member]) -> bytes:
    """Everything that follows the last member's data."""
    records = b"".join(map(directory_record, members))
    start = members[-1].end if members else 0
    return records + end_records(len(members), start, len(records))


def _shared(member: Member, needed: int, deflated: int, plain: int) -> bytes:
    """The fields that a member's local header and directory record have in common."""
    flags = 0 if member.name.isascii() else _UTF8
    when = (_MIDNIGHT, _1980_01_01)
    return _SHARED.pack(needed, flags, _DEFLATE, *when, member.whole.crc32, deflated, plain)


def _private_field(member: Member) -> bytes:
    header, body = member.header, member.body
    runs = (header.deflated, header.plain, header.crc32, body.deflated, body.plain, body.crc32)
    sealed = _SEALED.pack(FIELD_FORMAT, *runs, member.rows)
    seal = struct.pack("<I", isal_zlib.crc32(member.name.encode() + sealed))
    return struct.pack("<HH", FIELD_ID, FIELD.size) + sealed + seal
