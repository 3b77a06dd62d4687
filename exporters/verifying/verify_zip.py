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
from transforms.verifying.findings import (
    PUBLISH,
    Finding,
    Problem,
    Remedy,
    read_findings,
    replace_zips,
)
from transforms.warehouse.manifests.receipts import Receipt

_CHUNK_BYTES = 1024 * 1024
# What Python's reader makes of damage: a length before the file's beginning, an unknown method,
# an encryption that nobody asked for, a name that is no text.
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError),
    *(ValueError, OSError),
)


@dataclass(frozen=True, slots=True)
class ZipCheck:
    """The check of an archive's ZIPs; `only_hashes` leaves out what is in them.

    One of a bucket is copied below `scratch`.
    """

    archive: Archive
    scratch: Path | None
    only_hashes: bool

    def findings(self, entry: Entry, receipt: Receipt | None) -> Iterator[Finding]:
        """Compare a ZIP, and what lies beside it, with its entry, and that with the receipt."""
        place, again = self.archive.place(entry.path), replace_zips(entry.table, entry.blocks)
        found = [*read_findings(place, partial(self._zip_problem, entry), again, PUBLISH)]
        yield from found
        if not found and (what := _disagreement(entry, receipt)):
            remedy = Remedy(again.commands, "if the warehouse is right")
            yield Finding(Problem.DISAGREEMENT, place, what, remedy)
        read = partial(self._hash_file_problem, entry)
        yield from read_findings(f"{place}.sha256", read, again, PUBLISH)

    def _hash_file_problem(self, entry: Entry) -> str:
        content = self.archive.read(f"{entry.path}.sha256")
        if content is None:
            raise FileNotFoundError(f"{entry.path}.sha256")
        return "" if content == hash_line(entry) else "it does not say what the index says"

    def _zip_problem(self, entry: Entry) -> str:
        """How a ZIP is not what its entry says; "" if it is."""
        key = self.archive.key(entry.path)
        with _local_copy(self.archive.store, key, self.scratch) as copy:
            size, sha256 = copy.stat().st_size, content_sha256(copy)
            if (size, sha256) != (entry.bytes, entry.sha256):
                said = f"its entry says {entry.bytes} with {entry.sha256}"
                return f"it has {size} bytes with SHA-256 {sha256}, {said}"
            return "" if self.only_hashes else _content_problem(entry, copy)


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


def _content_problem(entry: Entry, copy: Path) -> str:
    """How a ZIP holds another CSV than its entry says; "" if not."""
    try:
        with zipfile.ZipFile(copy) as opened:
            if (names := opened.namelist()) != [entry.csv.name]:
                return f"it holds {', '.join(names) or 'nothing'}"
            with opened.open(entry.csv.name) as text:
                return _csv_problem(entry.csv, text)
    except _DAMAGED as error:
        # EINVAL is what a length of nonsense gives: it is about the bytes.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        return f"it does not unpack: {error}"


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
