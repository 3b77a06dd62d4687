"""Reading one published ZIP back, with Python's own reader and not ours."""

from __future__ import annotations

import errno
import hashlib
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from exporters.archive.archive import Archive
from exporters.archive.entries import Csv, Entry
from exporters.archive.hash_lists import hash_line
from exporters.archive.shards import shard_number, shard_path
from exporters.exports.plan import NotHeldError
from exporters.publishing.bundles import spliced_bundle
from exporters.publishing.request import block_times
from exporters.verifying.listing import local_copy
from exporters.zips.reader import read_members
from exporters.zips.sources import LocalSource
from transforms.errors import IntegrityError, RangeError
from transforms.stores.store import content_sha256
from transforms.verifying.findings import (
    PUBLISH,
    Finding,
    Problem,
    Remedy,
    replace_zips,
    unreadable,
)
from transforms.warehouse.manifests.receipts import Receipt

_CHUNK_BYTES = 1024 * 1024
# What Python's reader makes of damage: a length before the file's beginning, an unknown method,
# an encryption that nobody asked for, a name that is no text.
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError),
    *(ValueError, OSError),
)


@dataclass(slots=True)
class ZipCheck:
    """What was read of one ZIP, and found."""

    entry: Entry
    findings: list[Finding] = field(default_factory=list)
    zips: int = 0
    csvs: int = 0
    hash_files: int = 0

    def find(self, problem: Problem, place: str, what: str, remedy: Remedy | None = None) -> None:
        """Take in what is wrong; unless a remedy is named the ZIP is put there again."""
        again = replace_zips(self.entry.table, self.entry.blocks)
        self.findings.append(Finding(problem, place, what, remedy or again))


@dataclass(frozen=True, slots=True)
class ZipReader:
    """Reads the ZIPs of an archive; `only_hashes` leaves out what is in them.

    `missing` mends a ZIP or a hash file that is not there.
    """

    archive: Archive
    scratch: Path | None = None
    missing: Remedy = PUBLISH
    only_hashes: bool = False

    def check(self, entry: Entry, receipt: Receipt | None) -> ZipCheck:
        """Compare a ZIP, and what lies beside it, with its entry, and that with the receipt."""
        check, place = ZipCheck(entry), self.archive.place(entry.path)
        rows, hashes = sum(csv.rows for csv in entry.members), [csv.sha256 for csv in entry.members]
        if receipt is not None and (rows, hashes) != (receipt.rows, [receipt.sha256]):
            what = (
                f"its index entry has {rows} rows and SHA-256 {', '.join(hashes)}, the warehouse "
                f"{receipt.rows} rows and {receipt.sha256}"
            )
            commands = replace_zips(entry.table, entry.blocks).commands
            remedy = Remedy(commands, "if the warehouse is right")
            check.find(Problem.DISAGREEMENT, place, what, remedy)
        try:
            store, key = self.archive.store, self.archive.key(entry.path)
            with local_copy(store, key, self.scratch, "copy.zip") as copy:
                check.zips = 1
                self._zip(check, place, copy)
        except FileNotFoundError:
            what = "the index names it, and it is not there"
            check.find(Problem.MISSING, place, what, self.missing)
        except IntegrityError as error:
            check.find(Problem.ALTERED, place, str(error))
        except OSError as error:
            check.find(Problem.UNREADABLE, place, unreadable(error, place))
        self._hash_file(check, f"{place}.sha256")
        return check

    def _zip(self, check: ZipCheck, place: str, copy: Path) -> None:
        entry, size, sha256 = check.entry, copy.stat().st_size, content_sha256(copy)
        is_altered = (size, sha256) != (entry.bytes, entry.sha256)
        if is_altered:
            what = (
                f"it has {size} bytes with SHA-256 {sha256}, its entry says {entry.bytes} with "
                f"{entry.sha256}"
            )
            check.find(Problem.ALTERED, place, what)
        if not self.only_hashes:
            before = len(check.findings)
            self._content(check, place, copy)
            if not is_altered and len(check.findings) == before:
                self._runs(check, place, copy)

    def _hash_file(self, check: ZipCheck, place: str) -> None:
        try:
            content = self.archive.read(f"{check.entry.path}.sha256")
        except (IntegrityError, OSError) as error:
            what = unreadable(error, place) if isinstance(error, OSError) else str(error)
            check.find(Problem.BAD_HASH_FILE, place, what, self.missing)
            return
        if content is None:
            what = "it should be there, and is not"
            check.find(Problem.BAD_HASH_FILE, place, what, self.missing)
            return
        check.hash_files = 1
        if content != hash_line(check.entry):
            check.find(Problem.BAD_HASH_FILE, place, "it does not say what the index says")

    def _content(self, check: ZipCheck, place: str, copy: Path) -> None:
        entry = check.entry
        try:
            with zipfile.ZipFile(copy) as opened:
                names = opened.namelist()
                if names != [member.name for member in entry.members]:
                    what = f"it holds {', '.join(names) or 'nothing'}"
                    check.find(Problem.BAD_ZIP, place, what)
                    return
                for member in entry.members:
                    with opened.open(member.name) as text:
                        for what in _csv_problems(member, text):
                            check.find(Problem.BAD_ZIP, place, what)
                    check.csvs += 1
                checksums = [(info.CRC, info.file_size) for info in opened.infolist()]
        except _DAMAGED as error:
            # EINVAL is what a length of nonsense gives: it is about the bytes.
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise
            check.find(Problem.BAD_ZIP, place, f"it does not unpack: {error}")
            return
        if entry.is_bundle:
            self._bundle(check, place, checksums)

    def _runs(self, check: ZipCheck, place: str, copy: Path) -> None:
        """Hold runs and times in the index, by which ranges are found, against the ZIP."""
        entry = check.entry
        try:
            source = LocalSource.open(copy)
            members = read_members(source)
            pairs = zip(members, entry.members, strict=True)
            times = [block_times(source, member, csv.schema) for member, csv in pairs]
        except IntegrityError as error:
            check.find(Problem.BAD_ZIP, place, str(error))
            return
        shard = self.archive.place(shard_path(shard_number(entry.blocks)))
        is_same = {
            "runs": [(m.header, m.body) for m in members] == [csv.runs for csv in entry.members],
            "times": times == [csv.times for csv in entry.members],
        }
        for name in (name for name, same in is_same.items() if not same):
            what = f"it has other {name} for {entry.path} than the ZIP"
            check.find(Problem.BAD_INDEX, shard, what)

    def _bundle(self, check: ZipCheck, place: str, checksums: list[tuple[int, int]]) -> None:
        try:
            layout = spliced_bundle(self.archive, check.entry)
        except NotHeldError:
            return  # a mirror need not have them, where its archive had lost or damaged one
        except (RangeError, IntegrityError, FileNotFoundError) as error:
            what = f"its single-segment ZIPs cannot be joined to compare them: {error}"
            check.find(Problem.BAD_BUNDLE, place, what)
            return
        if checksums != [(member.crc32, member.csv_bytes) for member in layout.members]:
            check.find(Problem.BAD_BUNDLE, place, "it is not its single-segment ZIPs joined")


def _csv_problems(member: Csv, text: IO[bytes]) -> Iterator[str]:
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
    facts = (size, lines - 1, digest.hexdigest())
    if facts != (member.bytes, member.rows, member.sha256):
        yield (
            f"{member.name} has {size} bytes, {lines - 1} rows, SHA-256 {facts[2]}; its entry says "
            f"{member.bytes} bytes, {member.rows} rows, {member.sha256}"
        )
    if header != member.schema.header:
        yield f"{member.name} has other columns than its entry"
