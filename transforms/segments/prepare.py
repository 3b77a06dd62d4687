"""Getting a segment ready to load: fetched, its integrity checked, its tables extracted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from transforms.blocks import BlockRange
from transforms.errors import SegmentError
from transforms.segments.inventory import SegmentFile
from transforms.segments.segment_zip import SegmentZip, TableFile
from transforms.segments.source import Source

PreviousId = Callable[[SegmentFile], str]
"""Gives the id of the segment before one, or "" where it is not known."""


@dataclass(frozen=True, slots=True)
class PreparedSegment:
    """A segment ready to load: its ZIP fetched and checked, the tables of one folder extracted."""

    file: SegmentFile
    zip_path: Path
    sha256: str
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


def prepare(
    source: Source, file: SegmentFile, folder: Path, previous_id: PreviousId
) -> PreparedSegment:
    """Fetch a segment below `folder`, check all of it, and extract its history.

    Raises `SegmentError` for what is wrong with the file; errors of the source pass through.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "segment.zip"
    source.fetch(file, path)
    try:
        with SegmentZip(path, file.name) as opened:
            _check_chain(file, opened.previous_id, previous_id(file))
            tables = {
                table: opened.extract("history", table, folder)
                for table in opened.tables("history")
            }
            opened.check("currentstate")
            stated = opened.previous_id
    except SegmentError as error:
        raise SegmentError(str(error), file.name.file_name) from error
    return PreparedSegment(file, path, _sha256(path), stated or file.previous_id, tables)


def prepare_state(segment: PreparedSegment, folder: Path) -> PreparedSegment:
    """Extract the current-state tables of a prepared segment below `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with SegmentZip(segment.zip_path, segment.file.name) as opened:
            tables = {
                table: opened.extract("currentstate", table, folder)
                for table in opened.tables("currentstate")
            }
    except SegmentError as error:
        raise SegmentError(str(error), segment.file.name.file_name) from error
    return PreparedSegment(
        segment.file, segment.zip_path, segment.sha256, segment.previous_id, tables
    )


def _check_chain(file: SegmentFile, stated: str, known: str) -> None:
    """Hold the id that a segment gives for its predecessor against what is known of that."""
    for other, where in ((file.previous_id, "the source's index.json"), (known, "its predecessor")):
        if stated and other and stated != other:
            raise SegmentError(
                f"{file.name.file_name} follows segment {stated} by its metadata.json, but by "
                f"{where} that is {other}: it belongs to another history"
            )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
