"""Getting a segment ready to load: fetched, its integrity checked, its tables extracted."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.segments.cid import CidHasher
from transforms.segments.inventory import SegmentFile
from transforms.segments.segment_zip import SegmentZip, TableFile
from transforms.segments.source import Source, fetch_object

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class PreparedSegment:
    """A segment ready to load: its ZIP fetched and checked, the tables of one folder extracted.

    `segment_id` is computed from the ZIP; `previous_id` is what its `metadata.json` names, if it
    names any.
    """

    file: SegmentFile
    zip_path: Path
    sha256: str
    segment_id: str
    previous_id: str
    tables: dict[str, TableFile]

    @property
    def blocks(self) -> BlockRange:
        """The blocks that the segment covers."""
        return self.file.blocks

    @property
    def bytes(self) -> int:
        """The size of the extracted CSVs."""
        return sum(table.bytes for table in self.tables.values())


def prepare(source: Source, file: SegmentFile, folder: Path) -> PreparedSegment:
    """Fetch a segment below `folder`, check all of it, and extract its history.

    Raises `SegmentError` for what is wrong with the file; errors of the source pass through.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "segment.zip"
    # A copy cannot change while it is read.
    fetch_object(source.reader, file.info.key, path)
    with SegmentZip(path, file.name) as opened:
        tables = _extracted(opened, "history", folder)
        opened.check("currentstate")
        stated = opened.previous_id
    sha256, segment_id = zip_digests(path)
    return PreparedSegment(file, path, sha256, segment_id, stated, tables)


def prepare_state(segment: PreparedSegment, folder: Path) -> PreparedSegment:
    """Extract the current-state tables of a prepared segment below `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with SegmentZip(segment.zip_path, segment.file.name) as opened:
        return replace(segment, tables=_extracted(opened, "currentstate", folder))


def _extracted(opened: SegmentZip, kind: str, folder: Path) -> dict[str, TableFile]:
    return {table: opened.extract(kind, table, folder) for table in opened.tables(kind)}


def zip_digests(path: Path) -> tuple[str, str]:
    """The SHA-256 of a file and its CID, from one look at its bytes."""
    digest, cid = hashlib.sha256(), CidHasher()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            cid.update(chunk)
    return digest.hexdigest(), cid.cid()
