"""`metadata.json` of a segment's ZIP: what the data node that made it says that it is."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transforms.errors import SegmentError
from transforms.segments.cid import said
from transforms.segments.segment_name import SegmentName
from transforms.segments.zip_damage import BoundedFile, check_storage, damage_named

METADATA = "metadata.json"
MAX_METADATA_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Metadata:
    """Chain id, schema version, first and last block, as they stand there, and the previous id."""

    facts: tuple[Any, Any, Any, Any]
    previous_id: str


def read_metadata(data: bytes, where: str) -> Metadata:
    """Read `metadata.json`; `where` names it for a person. Raises `SegmentError`."""
    try:
        metadata: dict[str, Any] = json.loads(data)
        facts = (
            metadata["ChainID"],
            metadata["DatabaseVersion"],
            metadata["HeightFrom"],
            metadata["HeightTo"],
        )
        return Metadata(facts, said(metadata.get("PreviousHistorySegmentID")))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SegmentError(f"{where} is not a segment's metadata ({error!r})") from error


def stated_name(path: Path) -> SegmentName:
    """The name that a segment's ZIP has by its `metadata.json`. Raises `SegmentError`.

    Nothing else of the ZIP is looked at.
    """
    where = f"{path.name}: {METADATA}"
    with (
        path.open("rb") as file,
        damage_named(f"{where} cannot be read", "get the segment from another node"),
        zipfile.ZipFile(BoundedFile(file)) as opened,
    ):
        if METADATA not in opened.namelist():
            raise zipfile.BadZipFile("it is not in the ZIP")
        check_storage(opened.getinfo(METADATA), where)
        with opened.open(METADATA) as entry:
            data = entry.read(MAX_METADATA_BYTES + 1)
    if len(data) > MAX_METADATA_BYTES:
        raise SegmentError(f"{where} is too large to be that of a segment")
    return SegmentName.stated(*read_metadata(data, where).facts)
