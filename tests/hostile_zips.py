"""Segment files that are broken, forged or misplaced as files, each one call away.

`REFUSED_ZIPS` maps a description to the maker of one segment that must never be loaded; the makers
of pairs leave two segments in a folder that a source may not serve together as they are.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.segments_kit import (
    build_segment,
    columns,
    entry_bytes,
    entry_name,
    pg_csv,
    table_rows,
)

_LOCAL, _DIRECTORY = b"PK\x03\x04", b"PK\x01\x02"
# Where flags, method, CRC-32, sizes and the name lie after the start of a header, by its magic.
_HEADERS = {_LOCAL: (6, 8, 14, 18, 22, 30), _DIRECTORY: (8, 10, 16, 20, 24, 46)}
_FLAGS, _METHOD, _CRC, _DEFLATED, _SIZE, _NAME = range(6)


def _patch(
    data: bytes, entry: str, field: int, value: bytes, magics: Sequence[bytes] = tuple(_HEADERS)
) -> bytes:
    """Overwrite one field of an entry, in its local header and in the directory."""
    patched = bytearray(data)
    for magic in magics:
        offsets = _HEADERS[magic]
        start = data.find(magic)
        while data[start + offsets[_NAME] :][: len(entry)] != entry.encode():
            start = data.index(magic, start + 1)
        patched[start + offsets[field] : start + offsets[field] + len(value)] = value
    return bytes(patched)


def truncated(folder: Path) -> Path:
    """The second half of the file is missing, as after a broken download."""
    return build_segment(folder, corrupt=lambda data: data[: len(data) // 2])


def without_directory(folder: Path) -> Path:
    """Only the end is missing: all entries are whole, but nothing lists them."""
    return build_segment(folder, corrupt=lambda data: data[: data.rindex(b"PK\x05\x06")])


def empty_file(folder: Path) -> Path:
    """A file of no bytes under a segment's name."""
    return build_segment(folder, corrupt=lambda _: b"")


def not_a_zip(folder: Path) -> Path:
    """A web server's error page under a segment's name."""
    return build_segment(folder, corrupt=lambda _: b"<html>404 Not Found</html>\n" * 40)


def wrong_crc(folder: Path, table: str = "orders") -> Path:
    """One entry's recorded CRC-32 is not that of its bytes."""
    entry, crc = entry_name(table), b"\xde\xad\xbe\xef"
    return build_segment(folder, corrupt=lambda data: _patch(data, entry, _CRC, crc))


def flipped_bit(folder: Path, table: str = "blocks") -> Path:
    """One bit of an entry's deflated bytes is flipped."""

    def flip(data: bytes) -> bytes:
        place = data.index(entry_name(table).encode()) + 2000
        return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]

    return build_segment(folder, corrupt=flip)


def encrypted_entry(folder: Path, table: str = "orders") -> Path:
    """One entry claims to be encrypted."""
    entry = entry_name(table)
    return build_segment(folder, corrupt=lambda data: _patch(data, entry, _FLAGS, b"\x01\x00"))


def understated_size(folder: Path, table: str = "blocks", size: int = 1000) -> Path:
    """One entry inflates to more bytes than the headers say."""
    entry, size_bytes = entry_name(table), struct.pack("<L", size)
    return build_segment(folder, corrupt=lambda data: _patch(data, entry, _SIZE, size_bytes))


def prefix_of_a_table(folder: Path, table: str = "blocks", rows: int = 700) -> Path:
    """One entry has more rows than the size and the CRC-32 in the headers are those of."""
    entry = entry_name(table)
    segment = build_segment(folder)
    lines = entry_bytes(segment, table).splitlines(keepends=True)
    text = b"".join(lines[: 1 + rows])
    data = _patch(segment.read_bytes(), entry, _SIZE, struct.pack("<L", len(text)))
    segment.write_bytes(_patch(data, entry, _CRC, struct.pack("<L", zlib.crc32(text))))
    return segment


def entry_of_bytes(folder: Path, stored: bytes, text: bytes, table: str = "orders") -> Path:
    """One entry that lies in the ZIP as `stored`, and by its headers inflates to `text`."""
    entry = entry_name(table)
    segment = build_segment(folder, omit=(table,))
    with zipfile.ZipFile(segment, "a") as archive:
        archive.writestr(entry, stored, zipfile.ZIP_STORED)
    data = segment.read_bytes()
    for field, value in (
        (_METHOD, struct.pack("<H", zipfile.ZIP_DEFLATED)),
        (_CRC, struct.pack("<L", zlib.crc32(text))),
        (_SIZE, struct.pack("<L", len(text))),
    ):
        data = _patch(data, entry, field, value)
    segment.write_bytes(data)
    return segment


def surplus_bytes(folder: Path, surplus: bytes = b"surplus") -> Path:
    """More bytes follow a deflate stream, before the next entry."""
    text = pg_csv(*table_rows("orders", {}))
    return entry_of_bytes(folder, zlib.compress(text, wbits=-15) + surplus, text)


def surplus_rows(folder: Path) -> Path:
    """A second deflate stream, with a row, follows the first."""
    row = pg_csv(*table_rows("orders", {})).split(b"\n", 1)[1]
    return surplus_bytes(folder, zlib.compress(row, wbits=-15))


def endless_stream(folder: Path) -> Path:
    """A deflate stream gives all of its text and is cut before its last block."""
    text = pg_csv(*table_rows("orders", {}))
    stream = zlib.compressobj(wbits=-15)
    return entry_of_bytes(folder, stream.compress(text) + stream.flush(zlib.Z_FULL_FLUSH), text)


def overstated_size(folder: Path, table: str = "blocks") -> Path:
    """One entry inflates to fewer bytes than the headers say."""
    return understated_size(folder, table, 1 << 20)


def escaping_entry(folder: Path, name: str = "../evil") -> Path:
    """An entry's name leads out of the folder that the ZIP is unpacked into."""
    return build_segment(folder, extra_entries={name: b"out\n"})


def bomb(folder: Path, size: int = 64 << 20) -> Path:
    """A table with `size` zero bytes after its header, which deflate to a thousandth."""
    header = (",".join(columns("orders")) + "\n").encode()
    return build_segment(folder, tables={"orders": header + bytes(size)})


def missing_table(folder: Path, table: str = "orders") -> Path:
    """A table of the schema version has no entry."""
    return build_segment(folder, omit=(table,))


def twice_the_entry(folder: Path, table: str = "orders") -> Path:
    """Two entries carry one name; the second has a row more."""
    return build_segment(folder, extra_entries={entry_name(table): pg_csv(*table_rows(table, {}))})


def other_metadata(folder: Path, field: str = "HeightTo", value: object = 999) -> Path:
    """metadata.json contradicts the file's name in one field."""
    return build_segment(folder, metadata={field: value})


def without_metadata(folder: Path) -> Path:
    """There is no metadata.json, as in a file that the network has not published yet (legal)."""
    return build_segment(folder, metadata=None)


def unreadable_metadata(folder: Path, text: bytes = b"{") -> Path:
    """metadata.json is not JSON."""
    return build_segment(folder, metadata=None, extra_entries={"metadata.json": text})


def overlap(folder: Path) -> tuple[Path, Path]:
    """Two segments that share blocks 501 to 1000."""
    return build_segment(folder), build_segment(folder, first=501, last=1500)


def gap(folder: Path) -> tuple[Path, Path]:
    """Two segments with blocks 1001 to 2000 missing between them."""
    return build_segment(folder), build_segment(folder, first=2001, last=3000)


def two_chains(folder: Path) -> tuple[Path, Path]:
    """Two segments that follow each other but belong to different chains."""
    return build_segment(folder), build_segment(folder, chain_id="other", first=1001, last=2000)


def two_versions(folder: Path) -> tuple[Path, Path]:
    """Two segments of the same blocks at different schema versions."""
    return build_segment(folder), build_segment(folder, version=21)


REFUSED_ZIPS: Mapping[str, Callable[[Path], Path]] = {
    "a truncated file": truncated,
    "a file without its directory": without_directory,
    "an empty file": empty_file,
    "a file that is no ZIP": not_a_zip,
    "an entry with a wrong CRC": wrong_crc,
    "an entry with a flipped bit": flipped_bit,
    "an entry marked as encrypted": encrypted_entry,
    "an entry larger than it says": understated_size,
    "an entry smaller than it says": overstated_size,
    "an entry of which a part is called the whole": prefix_of_a_table,
    "an entry with bytes after its stream": surplus_bytes,
    "an entry with rows after its stream": surplus_rows,
    "an entry whose stream has no end": endless_stream,
    "an entry named ../evil": escaping_entry,
    "an entry with an absolute name": lambda folder: escaping_entry(folder, "/etc/evil"),
    "an entry with a backslash name": lambda folder: escaping_entry(folder, "..\\evil"),
    "an entry that climbs from inside": lambda folder: escaping_entry(folder, "history/../../x"),
    "a missing table": missing_table,
    "two entries of one name": twice_the_entry,
    "metadata with another last block": other_metadata,
    "metadata with another chain": lambda folder: other_metadata(folder, "ChainID", "other"),
    "metadata with another version": lambda folder: other_metadata(folder, "DatabaseVersion", 2),
    "metadata with text for a height": lambda folder: other_metadata(folder, "HeightFrom", "one"),
    "metadata that is no JSON": unreadable_metadata,
    "metadata that is no object": lambda folder: unreadable_metadata(folder, b"[1]"),
}
