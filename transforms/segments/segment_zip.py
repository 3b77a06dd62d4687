"""One segment's ZIP: integrity before use, and its tables as files (spec 2.8, decisions 7 and 8).

Everything that can be known to be wrong without reading rows is found here and named.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import re
import zipfile
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import IO, Any

from isal import isal_zlib

from transforms.errors import SegmentError
from transforms.files import naming_full_disk
from transforms.segments.cid import said
from transforms.segments.segment_name import SegmentName
from transforms.segments.table_text import TableText
from transforms.segments.zip_damage import check_storage, damage_named
from transforms.tables.dialect import LineCounter, header_names
from transforms.tables.registry import HISTORY_TABLES, RESERVED_TABLES, TableSchema, schema_of

MAX_INFLATED_BYTES = 32 * 2**30
"""The bound on what one segment may inflate to: 32 GiB, far above the largest real one."""

_METADATA = "metadata.json"
_FACTS = ("ChainID", "DatabaseVersion", "HeightFrom", "HeightTo")
_MAX_METADATA_BYTES = 1 << 20
_CHUNK = 1 << 18
_RAW_CHUNK = 1 << 18
_MAX_HEADER_BYTES = 1 << 16
# PostgreSQL's names have at most 63 bytes.
_ENTRY = re.compile(r"(?P<folder>history|currentstate)/(?P<table>[a-z][a-z0-9_]{0,62})")
_FOLDERS = ("history/", "currentstate/")
_schema_of = lru_cache(256)(schema_of)  # nearly all segments have the same headers


@dataclass(frozen=True, slots=True)
class TableFile(TableText):
    """The CSV of a table as a local file.

    Most tables of most segments are nothing but a header: of these there is no file at `path`.
    `rows` are the line feeds outside quotes, but for the header's: rows, if it is well-formed; none
    of them has more bytes than `longest_row`.
    """

    path: Path
    header_bytes: int
    longest_row: int

    @property
    def is_empty(self) -> bool:
        """Whether it is nothing but a header."""
        return self.bytes == self.header_bytes


def _as_stored(info: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """An entry by which `zipfile` gives the bytes of another one as they lie in the file."""
    raw = copy(info)
    raw.compress_type, raw.file_size = zipfile.ZIP_STORED, info.compress_size
    del raw.CRC
    return raw


def _inflate(file: IO[bytes]) -> Iterator[bytes]:
    """The text of a deflate stream, in pieces of bounded length; it takes up the whole file."""
    stream = isal_zlib.decompressobj(wbits=-isal_zlib.MAX_WBITS)
    while not stream.eof and (pending := file.read(_RAW_CHUNK)):
        while pending and not stream.eof:
            yield stream.decompress(pending, _CHUNK)
            pending = stream.unconsumed_tail
    if not stream.eof:
        yield stream.flush()
    if not stream.eof:
        raise zipfile.BadZipFile("its deflate stream has no end")
    if stream.unused_data or file.read(1):
        raise zipfile.BadZipFile("other bytes follow its deflate stream")


class SegmentZip:
    """A segment's ZIP, open for reading. Raises `SegmentError` for all that is wrong with it."""

    def __init__(
        self, path: Path, name: SegmentName, max_inflated_bytes: int = MAX_INFLATED_BYTES
    ) -> None:
        self.name = name
        with ExitStack() as opened:
            with damage_named(f"{name.file_name} is not a whole ZIP file", "fetch it again"):
                self._zip = opened.enter_context(zipfile.ZipFile(path))
            self._entries = self._checked_entries(max_inflated_bytes)
            self.previous_id = self._checked_metadata()
            self._opened = opened.pop_all()

    def __enter__(self) -> SegmentZip:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def tables(self, folder: str) -> tuple[str, ...]:
        """The tables of a folder, `history` or `currentstate`, sorted."""
        return tuple(sorted(table for kind, table in self._entries if kind == folder))

    def extract(self, folder: str, table: str, into: Path) -> TableFile:
        """Write one table's CSV to a file below `into`, checked as far as bytes go.

        Its CRC, header, encoding (UTF-8, no NUL byte) and last line feed are right afterwards.
        """
        info = self._entries[folder, table]
        path = into / f"{folder}-{table}-{self.name.blocks.key}.csv"
        digest, lines, text = hashlib.sha256(), LineCounter(), self._checked_text(info)
        head = next(text, b"")
        line = head[: head.find(b"\n", 0, _MAX_HEADER_BYTES) + 1]
        is_empty = info.file_size == len(line)
        with naming_full_disk(path), nullcontext() if is_empty else path.open("wb") as file:
            for chunk in chain([head], text):
                digest.update(chunk)
                lines.update(chunk)
                if file is not None:
                    file.write(chunk)
        schema = self._schema(table, line)
        return TableFile(
            self.name,
            schema,
            rows=lines.count - 1,
            bytes=info.file_size,
            sha256=digest.hexdigest(),
            path=path,
            header_bytes=len(line),
            longest_row=lines.longest,
        )

    def check(self, folder: str) -> None:
        """Read a folder's entries only to prove their CRCs."""
        for (kind, _), info in self._entries.items():
            if kind == folder:
                deque(self._chunks(info), maxlen=0)

    def _schema(self, table: str, line: bytes) -> TableSchema:
        if not line:
            raise SegmentError(f"{self._where(table)} has no header line")
        try:
            return _schema_of(table, self.name.version, header_names(line))
        except SegmentError as error:
            raise SegmentError(f"{self.name.file_name}: {error}") from error

    def _where(self, entry: str) -> str:
        return f"{self.name.file_name}: {entry}"

    def _chunks(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        where, size, crc = self._where(info.filename), 0, 0
        with damage_named(f"{where} cannot be inflated", "fetch the file again"):
            for chunk in self._inflated(info):
                size += len(chunk)
                crc = isal_zlib.crc32(chunk, crc)
                if size > info.file_size:
                    raise zipfile.BadZipFile(f"it has more than its {info.file_size} bytes")
                yield chunk
            if size < info.file_size:
                raise zipfile.BadZipFile(f"it ends after {size} of {info.file_size} bytes")
            if crc != info.CRC:
                raise zipfile.BadZipFile(f"Bad CRC-32 for file {info.filename!r}")

    def _inflated(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        """The text of an entry, which `zipfile` finds, but inflates at half the speed."""
        with self._zip.open(_as_stored(info)) as file:
            if info.compress_type == zipfile.ZIP_STORED:
                yield from iter(lambda: file.read(_CHUNK), b"")
            else:
                yield from _inflate(file)

    def _checked_text(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder("utf-8")()
        offset, last = 0, b""
        for chunk in self._chunks(info):
            if b"\0" in chunk:
                at = offset + chunk.index(b"\0")
                raise SegmentError(f"{self._where(info.filename)} has a NUL byte at byte {at}")
            try:
                if not chunk.isascii() or decoder.getstate()[0]:  # most are, which is faster told
                    decoder.decode(chunk)
            except UnicodeDecodeError as error:
                at = offset + error.start
                raise SegmentError(
                    f"{self._where(info.filename)} is not UTF-8 near byte {at}: {error.reason}"
                ) from error
            offset, last = offset + len(chunk), chunk
            yield chunk
        if not last.endswith(b"\n"):
            raise SegmentError(
                f"{self._where(info.filename)} does not end with a line feed: it is cut short"
            )

    def _checked_entries(self, bound: int) -> dict[tuple[str, str], zipfile.ZipInfo]:
        entries: dict[tuple[str, str], zipfile.ZipInfo] = {}
        total = 0
        for info in self._zip.infolist():
            check_storage(info, self._where(info.filename))
            total += info.file_size
            match = _ENTRY.fullmatch(info.filename)
            if info.filename == _METADATA or info.filename in _FOLDERS:
                continue
            if match is None:
                raise SegmentError(
                    f"{self.name.file_name} holds an entry {info.filename[:80]!r} that is neither "
                    "history/<table>, currentstate/<table> nor metadata.json"
                )
            if match["table"] in RESERVED_TABLES:
                raise SegmentError(
                    f"{self._where(info.filename)} has the name of a table of Strata's own: this "
                    "release cannot load such a table, a newer one may"
                )
            key = (match["folder"], match["table"])
            if key in entries:
                raise SegmentError(f"{self._where(info.filename)} is in the ZIP twice")
            entries[key] = info
        if total > bound:
            raise SegmentError(
                f"{self.name.file_name} would inflate to {total} bytes, over the bound of {bound}"
            )
        missing = [table for table in HISTORY_TABLES if ("history", table) not in entries]
        if missing:
            raise SegmentError(
                f"{self.name.file_name} lacks the table {', '.join(missing)}: "
                "a table without rows must still have its header"
            )
        return entries

    def _checked_metadata(self) -> str:
        """Hold `metadata.json`, where there is one, against the file name; give the previous id."""
        names = [info for info in self._zip.infolist() if info.filename == _METADATA]
        if not names:
            return ""
        where = self._where(_METADATA)
        if len(names) > 1 or names[0].file_size > _MAX_METADATA_BYTES:
            raise SegmentError(f"{where} is there twice or too large")
        try:
            metadata: dict[str, Any] = json.loads(b"".join(self._chunks(names[0])))
            facts = tuple(metadata[name] for name in _FACTS)
            previous_id = said(metadata.get("PreviousHistorySegmentID"))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise SegmentError(f"{where} is not a segment's metadata ({error!r})") from error
        blocks = self.name.blocks
        if facts != (self.name.chain_id, self.name.version, blocks.first, blocks.last):
            chain, version, first, last = map(said, map(str, facts))
            raise SegmentError(
                f"{self.name.file_name}: the name contradicts metadata.json, which says chain "
                f"{chain}, schema version {version}, blocks {first} to {last}"
            )
        return previous_id
