"""A segment source: a folder or bucket of segment ZIPs, perhaps with an `index.json` of ids."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from transforms.errors import ConfigError
from transforms.objects import ObjectInfo, ObjectReader
from transforms.segments.cid import said
from transforms.segments.inventory import (
    NOTHING_HELD,
    Inventory,
    LoadedSegments,
    SegmentFile,
    take_inventory,
)

_INDEX_KEY = "index.json"
_ASKERS = 8


class Source:
    """Read access to the segments of one chain.

    `folders` are those that its last listing saw beside the segments.
    """

    def __init__(self, reader: ObjectReader) -> None:
        self._reader = reader
        self._listed: tuple[float, list[ObjectInfo]] = (-math.inf, [])
        self.folders: frozenset[str] = frozenset()

    @property
    def reader(self) -> ObjectReader:
        """The folder or bucket, for what lies beside the segments."""
        return self._reader

    def __repr__(self) -> str:
        return f"Source({self.describe()})"

    def describe(self) -> str:
        """Name the source for a person."""
        return self._reader.describe()

    def inventory(
        self,
        contents: LoadedSegments = NOTHING_HELD,
        objects: Sequence[ObjectInfo] | None = None,
    ) -> Inventory:
        """The source's segments and refusals; only its top level counts.

        `contents` are segments already loaded, `objects` a listing, which is taken if there is
        none. Raises `ConfigError` where `index.json` is not one.
        """
        objects = self.listing() if objects is None else objects
        has_index = any(info.key == _INDEX_KEY for info in objects)
        return take_inventory(objects, self._index_ids() if has_index else {}, contents)

    @property
    def listed(self) -> float:
        """When its last listing began, by `time.monotonic`."""
        return self._listed[0]

    def listing(self, known_for: float = 0.0) -> Sequence[ObjectInfo]:
        """What lies at the top level; a listing of the last `known_for` seconds is used again."""
        began = time.monotonic()
        if began - self.listed < known_for:
            return self._listed[1]
        everything = [*self._reader.list()]
        objects = [info for info in everything if "/" not in info.key]
        self.folders = frozenset(
            info.key.partition("/")[0] for info in everything if "/" in info.key
        )
        self._listed = (began, objects)
        return objects

    def fetch(self, segment: SegmentFile, path: Path) -> None:
        """Copy a segment's ZIP to a local file, so that it cannot change while it is read."""
        self._reader.fetch(segment.info.key, path)

    def has(self, segments: Iterable[SegmentFile]) -> bool:
        """Whether the files of all these segments are there still as they were listed."""
        with ThreadPoolExecutor(_ASKERS) as pool:
            infos = [segment.info for segment in segments]
            return infos == [*pool.map(self._reader.head, [info.key for info in infos])]

    def _index_ids(self) -> dict[str, str]:
        try:
            rows: list[dict[str, Any]] = json.loads(self._reader.read(_INDEX_KEY))
            return {
                str(row.get("File") or row.get("file") or ""): said(row.get("HistorySegmentID"))
                for row in rows
            }
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            where = self._reader.describe(_INDEX_KEY)
            raise ConfigError(
                f"{where} is not a JSON list of segments ({error}): correct or remove it"
            ) from error
