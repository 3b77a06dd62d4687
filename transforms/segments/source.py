"""A segment source: a folder or bucket of segment ZIPs, perhaps with an `index.json` of ids."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from transforms.errors import StrataError, UnreadableObjectError
from transforms.machine_errors import LIMITS, sentence
from transforms.objects import ObjectInfo, ObjectReader
from transforms.segments.cid import said
from transforms.segments.inventory import (
    NOTHING_HELD,
    Inventory,
    LoadedSegments,
    Refusal,
    SegmentFile,
    take_inventory,
)

_INDEX_KEY = "index.json"
_ASKERS = 8


class Source:
    """Read access to the segments of one chain.

    `reader` is the folder or bucket; `folders` are those that its last listing saw beside the
    segments.
    """

    def __init__(self, reader: ObjectReader) -> None:
        self.reader = reader
        self._listed: tuple[float, list[ObjectInfo]] = (-math.inf, [])
        self.folders: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"Source({self.describe()})"

    def describe(self, key: str = "") -> str:
        """Name the source, or a file of it, for a person."""
        return self.reader.describe(key)

    def inventory(
        self,
        contents: LoadedSegments = NOTHING_HELD,
        objects: Sequence[ObjectInfo] | None = None,
    ) -> Inventory:
        """The source's segments and refusals; only its top level counts.

        `contents` are segments already loaded, `objects` a listing, which is taken if there is
        none. An `index.json` that gives no ids is refused like a segment.
        """
        objects = self.listing() if objects is None else objects
        index = next((info for info in objects if info.key == _INDEX_KEY), None)
        ids, problem = self._index_ids() if index else ({}, "")
        inventory = take_inventory(objects, ids, contents)
        if index is None or not problem:
            return inventory
        return replace(inventory, refused=(*inventory.refused, Refusal(index, problem)))

    @property
    def listed(self) -> float:
        """When its last listing began, by `time.monotonic`."""
        return self._listed[0]

    def listing(self, known_for: float = 0.0) -> Sequence[ObjectInfo]:
        """What lies at the top level; a listing of the last `known_for` seconds is used again."""
        began = time.monotonic()
        if began - self.listed < known_for:
            return self._listed[1]
        everything = [*self.reader.list()]
        objects = [info for info in everything if "/" not in info.key]
        self.folders = frozenset(
            info.key.partition("/")[0] for info in everything if "/" in info.key
        )
        self._listed = (began, objects)
        return objects

    def has(self, segments: Iterable[SegmentFile]) -> bool:
        """Whether the files of all these segments are there still as they were listed.

        A file that the source does not describe counts as changed.
        """
        infos = [segment.info for segment in segments]
        with ThreadPoolExecutor(_ASKERS) as pool, suppress(OSError, StrataError):
            return infos == [*pool.map(self.reader.head, [info.key for info in infos])]
        return False

    def _index_ids(self) -> tuple[dict[str, str], str]:
        """The ids by file name, and why `index.json` gives none, if so."""
        try:
            rows: list[dict[str, Any]] = json.loads(self.reader.read(_INDEX_KEY))
            ids = (
                (str(row.get("File") or row.get("file") or ""), said(row.get("HistorySegmentID")))
                for row in rows
            )
            return dict(ids), ""
        except (OSError, StrataError) as error:
            return {}, _reason(error)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            where = self.reader.describe(_INDEX_KEY)
            problem = f"{where} is not a JSON list of segments ({error}): correct or remove it"
            return {}, problem


def fetch_object(reader: ObjectReader, key: str, path: Path) -> None:
    """Copy an object of a source to a local file.

    Raises `UnreadableObjectError` if the source answers, but does not give this object. Errors of
    the whole source and of this machine pass through.
    """
    try:
        reader.fetch(key, path)
    except (OSError, StrataError) as error:
        if isinstance(error, OSError) and (
            error.errno in LIMITS or Path(str(error.filename)).is_relative_to(path.parent)
        ):
            raise
        try:
            any(reader.list())
        except (OSError, StrataError):
            raise error from None
        raise UnreadableObjectError(_reason(error)) from error


def _reason(error: Exception) -> str:
    return sentence(error) if isinstance(error, OSError) else str(error)
