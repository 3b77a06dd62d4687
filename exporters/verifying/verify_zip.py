"""Reading one published ZIP back, with Python's own reader and not ours."""

from __future__ import annotations

import errno
import hashlib
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
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
    present,
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


def zip_findings(
    archive: Archive,
    entry: Entry,
    receipt: Receipt | None,
    scratch: Path | None,
    *,
    only_hashes: bool,
) -> list[Finding]:
    """Compare a ZIP, and what lies beside it, with its entry, and that with the receipt.

    One of a bucket is copied below `scratch`; `only_hashes` leaves out what is in it.
    """
    place, again = archive.place(entry.path), replace_zips(entry.blocks, entry.table)

    def zip_problem() -> str:
        with _local_copy(archive.store, archive.key(entry.path), scratch) as copy:
            size, sha256 = copy.stat().st_size, content_sha256(copy)
            if (size, sha256) != (entry.bytes, entry.sha256):
                said = f"its entry says {entry.bytes} with {entry.sha256}"
                return f"it has {size} bytes with SHA-256 {sha256}, {said}"
            return "" if only_hashes else _content_problem(entry, copy)

    def hash_file_problem() -> str:
        content = present(archive.read(f"{entry.path}.sha256"), entry.path)
        return "" if content == hash_line(entry) else "it does not say what the index says"

    findings = read_findings(place, zip_problem, again, PUBLISH)
    rows, csv = entry.rows, entry.csv.sha256
    if not findings and receipt and (rows, csv) != (receipt.rows, receipt.sha256):
        own = f"its index entry has {rows} rows and SHA-256 {csv}"
        what = f"{own}, the warehouse {receipt.rows} rows and {receipt.sha256}"
        remedy = Remedy(again.commands, "if the warehouse is right")
        findings.append(Finding(Problem.DISAGREEMENT, place, what, remedy))
    return findings + read_findings(f"{place}.sha256", hash_file_problem, again, PUBLISH)


@contextmanager
def _local_copy(store: Store, key: str, scratch: Path | None) -> Iterator[Path]:
    """An object as a local file: a folder's own, which may be missing, or a copy, for the block."""
    own = store.path(key)
    if own is not None:
        yield own
        return
    with scratch_folder(scratch) as folder:
        store.fetch(key, folder / "copy.zip")
        yield folder / "copy.zip"


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
