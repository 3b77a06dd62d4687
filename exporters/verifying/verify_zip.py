"""Reading one published ZIP back, with Python's own reader and not ours."""

from __future__ import annotations

import errno
import hashlib
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from exporters.archive.archive import Archive
from exporters.archive.entries import Csv, Entry
from exporters.archive.hash_lists import hash_line
from transforms.scratch import scratch_folder
from transforms.stores.store import Store, content_sha256
from transforms.tables.dialect import LineCounter
from transforms.verifying.findings import Finding, Problem, Remedy, read_findings, replace_zips
from transforms.warehouse.manifests.receipts import Receipt

_CHUNK_BYTES = 1024 * 1024
# What Python's reader makes of damage: a length before the file's beginning, an unknown method,
# an encryption that nobody asked for, a name that is no text.
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError),
    *(ValueError, OSError),
)


@dataclass(frozen=True, slots=True)
class ZipReader:
    """Reads the ZIPs of an archive; `only_hashes` leaves out what is in them.

    `missing` mends a ZIP or a hash file that is not there. Of a bucket's, one at a time is copied
    below `scratch`.
    """

    archive: Archive
    scratch: Path | None
    missing: Remedy
    only_hashes: bool = False

    def findings(self, entry: Entry, receipt: Receipt | None) -> list[Finding]:
        """Compare a ZIP, and what lies beside it, with its entry, and that with the receipt."""
        place, again = self.archive.place(entry.path), replace_zips(entry.table, entry.blocks)
        found = [*read_findings(place, partial(self._zip_problem, entry), again, self.missing)]
        if not found and (what := _disagreement(entry, receipt)):
            remedy = Remedy(again.commands, "if the warehouse is right")
            found.append(Finding(Problem.DISAGREEMENT, place, what, remedy))
        read = partial(self._hash_file_problem, entry)
        return [*found, *read_findings(f"{place}.sha256", read, again, self.missing)]

    def _hash_file_problem(self, entry: Entry) -> str:
        content = self.archive.read(f"{entry.path}.sha256")
        if content is None:
            raise FileNotFoundError(f"{entry.path}.sha256")
        return "" if content == hash_line(entry) else "it does not say what the index says"

    def _zip_problem(self, entry: Entry) -> str:
        key = self.archive.key(entry.path)
        with _local_copy(self.archive.store, key, self.scratch) as copy:
            return self._problem(entry, copy)

    def _problem(self, entry: Entry, copy: Path) -> str:
        """How a ZIP is not what its entry says; "" if it is."""
        size, sha256 = copy.stat().st_size, content_sha256(copy)
        if (size, sha256) != (entry.bytes, entry.sha256):
            said = f"its entry says {entry.bytes} with {entry.sha256}"
            return f"it has {size} bytes with SHA-256 {sha256}, {said}"
        if self.only_hashes:
            return ""
        try:
            with zipfile.ZipFile(copy) as opened:
                return _content_problem(entry, opened)
        except _DAMAGED as error:
            # EINVAL is what a length of nonsense gives: it is about the bytes.
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise
            return f"it does not unpack: {error}"


@contextmanager
def _local_copy(store: Store, key: str, scratch: Path | None) -> Iterator[Path]:
    """An object as a local file: a folder's own, or a copy, for the block.

    Raises `FileNotFoundError` where it is not there.
    """
    own = store.path(key)
    if own is not None:
        if not own.is_file():
            raise FileNotFoundError(own)
        yield own
        return
    with scratch_folder(scratch) as folder:
        store.fetch(key, folder / "copy.zip")
        yield folder / "copy.zip"


def _disagreement(entry: Entry, receipt: Receipt | None) -> str:
    """How a ZIP's entry has another CSV than the warehouse; "" if not."""
    rows, sha256 = entry.rows, entry.csv.sha256
    if receipt is None or (rows, sha256) == (receipt.rows, receipt.sha256):
        return ""
    own = f"its index entry has {rows} rows and SHA-256 {sha256}"
    return f"{own}, the warehouse {receipt.rows} rows and {receipt.sha256}"


def _content_problem(entry: Entry, opened: zipfile.ZipFile) -> str:
    """How a ZIP holds another CSV than its entry says; "" if not."""
    names = opened.namelist()
    if names != [entry.csv.name]:
        return f"it holds {', '.join(names) or 'nothing'}"
    with opened.open(entry.csv.name) as text:
        return _csv_problem(entry.csv, text)


def _csv_problem(member: Csv, text: IO[bytes]) -> str:
    digest, size, lines, header = hashlib.sha256(), 0, LineCounter(), b""
    while chunk := text.read(_CHUNK_BYTES):
        header = header or chunk[: len(member.schema.header)]
        digest.update(chunk)
        size += len(chunk)
        lines.update(chunk)
    facts, said = (
        f"{size} bytes, {lines.count - 1} rows, SHA-256 {digest.hexdigest()}",
        f"{member.bytes} bytes, {member.rows} rows, SHA-256 {member.sha256}",
    )
    if facts != said:
        return f"{member.name} has {facts}; its entry says {said}"
    return "" if header == member.schema.header else f"{member.name} has other columns than said"
