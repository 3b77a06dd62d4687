"""Reading one published ZIP back, with Python's own reader and not ours."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from exporters.archive.archive import Archive
from exporters.archive.entries import Csv, Entry
from exporters.archive.shards import shard_number, shard_path
from exporters.publishing.publish import hash_line
from exporters.publishing.windows import spliced_window
from exporters.verifying.findings import Finding, Problem
from exporters.zips.reader import read_members
from exporters.zips.sources import LocalSource
from transforms.errors import IntegrityError, RangeError
from transforms.stores.store import content_sha256

_CHUNK_BYTES = 1024 * 1024
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError)


def entry_findings(archive: Archive, scratch: Path | None, entry: Entry) -> list[Finding]:
    """Download a ZIP and compare it, and what lies beside it, with its entry."""
    place = archive.place(entry.path)
    with tempfile.TemporaryDirectory(prefix="strata-", dir=scratch) as folder:
        copy = Path(folder) / "copy.zip"
        try:
            archive.store.fetch(archive.key(entry.path), copy)
        except FileNotFoundError:
            what = "the index names it, but it is not there: publish its segments again"
            return [Finding(Problem.MISSING, place, what)]
        findings = [*_hash_findings(archive, entry, copy), *_zip_findings(archive, entry, copy)]
        return findings or list(_run_findings(archive, entry, copy))


def _hash_findings(archive: Archive, entry: Entry, copy: Path) -> Iterator[Finding]:
    place, size, sha256 = archive.place(entry.path), copy.stat().st_size, content_sha256(copy)
    if (size, sha256) != (entry.bytes, entry.sha256):
        yield Finding(
            Problem.ALTERED,
            place,
            f"it has {size} bytes with SHA-256 {sha256}, its entry says {entry.bytes} with "
            f"{entry.sha256}: restore it, or replace it and give the reason",
        )
    if archive.read(f"{entry.path}.sha256") != hash_line(entry):
        what = "it is absent or not that of the index: publish the ZIP's segments again"
        yield Finding(Problem.BAD_HASH_FILE, f"{place}.sha256", what)


def _zip_findings(archive: Archive, entry: Entry, copy: Path) -> Iterator[Finding]:
    place = archive.place(entry.path)
    try:
        with zipfile.ZipFile(copy) as opened:
            names = opened.namelist()
            if names != [member.name for member in entry.members]:
                yield Finding(Problem.BAD_ZIP, place, f"it holds {', '.join(names) or 'nothing'}")
                return
            for member in entry.members:
                with opened.open(member.name) as text:
                    yield from _csv_findings(place, member, text)
            found = [(info.CRC, info.file_size) for info in opened.infolist()]
    except _DAMAGED as error:
        yield Finding(Problem.BAD_ZIP, place, f"it does not unpack: {error}")
        return
    if entry.is_window:
        yield from _window_findings(archive, entry, found)


def _run_findings(archive: Archive, entry: Entry, copy: Path) -> Iterator[Finding]:
    """Hold the runs that the index gives, by which ranges are spliced, against a sound ZIP's."""
    try:
        found = [(member.header, member.body) for member in read_members(LocalSource.open(copy))]
    except IntegrityError as error:
        yield Finding(Problem.BAD_ZIP, archive.place(entry.path), f"{error}: replace it")
        return
    indexed = [csv.runs for csv in entry.members]
    if found != indexed and any(indexed):  # an index of before has none
        place = archive.place(shard_path(shard_number(entry.blocks)))
        what = f"it has other runs for {entry.path} than the ZIP: publish it again with --replace"
        yield Finding(Problem.BAD_INDEX, place, what)


def _csv_findings(place: str, member: Csv, text: IO[bytes]) -> Iterator[Finding]:
    digest, size, lines, quotes = hashlib.sha256(), 0, 0, 0
    header = b""
    while chunk := text.read(_CHUNK_BYTES):
        header = header or chunk[: len(member.schema.header)]
        digest.update(chunk)
        size += len(chunk)
        # Every second piece between quote characters lies outside quotes; there a line feed ends
        # a row. A doubled quote inside a value is an empty piece outside.
        pieces = chunk.split(b'"')
        lines += sum(piece.count(b"\n") for piece in pieces[quotes % 2 :: 2])
        quotes += len(pieces) - 1
    found = (size, lines - 1, digest.hexdigest())
    if found != (member.bytes, member.rows, member.sha256):
        yield Finding(
            Problem.BAD_ZIP,
            place,
            f"{member.name} has {size} bytes, {lines - 1} rows, SHA-256 {found[2]}; its entry says "
            f"{member.bytes} bytes, {member.rows} rows, {member.sha256}",
        )
    if header != member.schema.header:
        yield Finding(Problem.BAD_ZIP, place, f"{member.name} has other columns than its entry")


def _window_findings(
    archive: Archive, entry: Entry, found: list[tuple[int, int]]
) -> Iterator[Finding]:
    place = archive.place(entry.path)
    try:
        layout = spliced_window(archive, entry)
    except (RangeError, IntegrityError, FileNotFoundError) as error:
        yield Finding(Problem.BAD_WINDOW, place, f"it cannot be made again: {error}")
        return
    if found != [(member.crc32, member.csv_bytes) for member in layout.members]:
        what = "it is not its single-segment ZIPs joined: replace it, and give the reason"
        yield Finding(Problem.BAD_WINDOW, place, what)
