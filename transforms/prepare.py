"""Getting a segment ready to load: fetched, its integrity checked, its tables extracted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from transforms.errors import SegmentError
from transforms.inventory import SegmentFile
from transforms.segment_zip import SegmentZip
from transforms.source import Source
from transforms.volumes import PreparedSegment

PreviousId = Callable[[SegmentFile], str]
"""Gives the id of the segment before one, or "" where it is not known."""


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
            said = opened.previous_id
    except SegmentError as error:
        raise SegmentError(str(error), file.name.file_name) from error
    return PreparedSegment(file, path, _sha256(path), said or file.previous_id, tables)


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


def _check_chain(file: SegmentFile, said: str, known: str) -> None:
    """Hold the id that a segment gives for its predecessor against what is known of that."""
    for other, where in ((file.previous_id, "the source's index.json"), (known, "its predecessor")):
        if said and other and said != other:
            raise SegmentError(
                f"{file.name.file_name} follows segment {said} by its metadata.json, but by "
                f"{where} that is {other}: it belongs to another history"
            )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
