"""A ZIP of one part: one table of one segment, deflated while it passes (spec 2.8)."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from exporters.zips.container import Member, directory, local_header
from exporters.zips.runs import DEFAULT_LEVEL, STREAM_END, deflate
from transforms.files import new_file

# Nearly every part deflates to less, and then never touches the disk before it is whole.
_SPOOL_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PartZip:
    """A ZIP just written: its only member, and the SHA-256 (hex) of the bytes given to the disk."""

    member: Member
    sha256: str


class _HashingFile:
    """Writes through to a file and hashes what passes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._file.write(data)


def write_part_zip(
    path: Path,
    member_name: str,
    header: bytes,
    body: Iterable[bytes],
    rows: int,
    level: int = DEFAULT_LEVEL,
    *,
    scratch: Path | None = None,
) -> PartZip:
    """Write the ZIP of one CSV to `path`: its header line, then its body in pieces of any length.

    The same text gives the same bytes. Memory is bounded; `path` appears whole or not at all, and
    whatever `body` raises passes through. It may not survive a power cut. For `scratch` see
    `new_file`.
    """
    folder = scratch or path.parent
    folder.mkdir(parents=True, exist_ok=True)
    # What precedes the runs in the ZIP holds their lengths, so they wait in a file without a name.
    with tempfile.SpooledTemporaryFile(_SPOOL_BYTES, dir=str(folder)) as spool:
        header_run = deflate([header], spool.write, level)
        body_run = deflate(body, spool.write, level)
        member = Member(member_name, 0, header_run, body_run, rows)
        spool.seek(0)
        with new_file(path, scratch, durable=False) as file:
            out = _HashingFile(file)
            out.write(local_header(member))
            shutil.copyfileobj(spool, out)
            out.write(STREAM_END)
            out.write(directory([member]))
    return PartZip(member, out.digest.hexdigest())
