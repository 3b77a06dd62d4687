"""What one version of a Delta table is made of: the actions of its log that still count."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

from transforms.block_range import BlockRange
from transforms.coverage import inside, union
from transforms.errors import IntegrityError, SegmentError

_NAME = re.compile(r"(\d{1,19})-(\d{1,19})\.([0-9a-f]{16})(?:\.([0-9a-f]{64}))?\.parquet")
_COLUMNS = "strata.columns"

Action = Mapping[str, Any]
"""An action as Delta's protocol has it, or what is said of one thing in it."""


def new_name(blocks: BlockRange, sha256: str, csv: str = "") -> str:
    """The name of a file: the blocks of its segments, and the beginning of its SHA-256.

    One of current state has the SHA-256 of the CSV that it renders to, too: whoever publishes a
    newer segment sees by it whether the rows are the same.
    """
    return ".".join(filter(None, (str(blocks), sha256[:16], csv, "parquet")))


@lru_cache(maxsize=16_384)
def parsed_name(name: str) -> tuple[BlockRange, str, str] | None:
    """What `new_name` made a name of; None for one that Strata does not give."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    try:
        return BlockRange(int(match[1]), int(match[2])), match[3], match[4] or ""
    except SegmentError:  # it ends before it begins
        return None


@dataclass(frozen=True, slots=True)
class ActiveFile:
    """A file that a table is made of: its name, its bytes, its rows, the names of its columns.

    `time` is when it was added, in milliseconds. The log has no least and greatest values: Parquet
    has them, and no reader compares them wrong.
    """

    name: str
    bytes: int
    rows: int
    columns: tuple[str, ...] = field(default=(), repr=False)
    time: int = 0

    @classmethod
    def of(cls, action: Action) -> ActiveFile:
        """The file that an action adds. Raises `IntegrityError` for one that is not Strata's."""
        name = unquote(action["path"])
        if parsed_name(name) is None:
            raise IntegrityError(f"it names {name}, which Strata did not write")
        rows = json.loads(action.get("stats") or "{}").get("numRecords", 0)
        columns = ((action.get("tags") or {}).get(_COLUMNS) or "").split(",")
        time = action.get("modificationTime") or 0
        return cls(name, action.get("size") or 0, rows, tuple(filter(None, columns)), time)

    def added(self, now: int) -> Action:
        """The action that adds it, at a time in milliseconds."""
        return {
            "path": self.name,
            "partitionValues": {},
            "size": self.bytes,
            "modificationTime": now,
            "dataChange": True,
            "stats": json.dumps({"numRecords": self.rows}),
            "tags": {_COLUMNS: ",".join(self.columns)},
        }

    @property
    def _parsed(self) -> tuple[BlockRange, str, str]:
        parsed = parsed_name(self.name)
        assert parsed is not None  # see `of`
        return parsed

    @property
    def blocks(self) -> BlockRange:
        """The blocks of its segments."""
        return self._parsed[0]

    @property
    def csv(self) -> str:
        """The SHA-256 of its CSV, if it is one of current state; else empty."""
        return self._parsed[2]

    def is_of(self, sha256: str) -> bool:
        """Whether a file with this SHA-256 (hex) may have its name."""
        return sha256.startswith(self._parsed[1])


def removed_file(name: str, now: int) -> Action:
    """The action that removes a file, at a time in milliseconds."""
    return {"path": name, "deletionTimestamp": now, "dataChange": True}


@dataclass(frozen=True)
class TableVersion:
    """A version of a table: its number, its metadata, and its active files by name.

    `removed` says when those were removed that were active, in milliseconds. Number -1 is that of
    no table.
    """

    number: int = -1
    metadata: Action = field(default_factory=dict)
    by_name: Mapping[str, ActiveFile] = field(default_factory=dict)
    removed: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def files(self) -> tuple[ActiveFile, ...]:
        """The files that it is made of, ascending by block."""
        return tuple(sorted(self.by_name.values(), key=lambda file: (file.blocks, file.name)))

    @cached_property
    def fields(self) -> list[dict[str, Any]]:
        """Its columns as the schema has them."""
        schema: dict[str, list[dict[str, Any]]] = json.loads(
            self.metadata.get("schemaString", "{}")
        )
        return schema.get("fields", [])

    def check(self) -> None:
        """Raise `IntegrityError` where its files or columns are none that Strata names."""
        for lower, upper in pairwise(self.files):
            if lower.csv or upper.csv or lower.blocks.overlaps(upper.blocks):
                raise IntegrityError(f"it has rows twice, in {lower.name} and {upper.name}")
        if self.number >= 0 and not self.fields:
            raise IntegrityError("no commit of it says what columns the table has")

    def lacks(self, segments: Sequence[BlockRange]) -> list[BlockRange]:
        """Those of the segments (ascending) that are not whole in its files."""
        there = frozenset(inside(segments, union(file.blocks for file in self.files)))
        return [segment for segment in segments if segment not in there]

    def actions(self) -> Iterator[Action]:
        """The actions that sum it up."""
        yield {"metaData": self.metadata}
        yield from ({"add": file.added(file.time)} for file in self.by_name.values())
        yield from ({"remove": removed_file(name, time)} for name, time in self.removed.items())

    def following(self, number: int, actions: Iterable[Action]) -> TableVersion:
        """The version after some more actions. Raises `IntegrityError` for files of others."""
        metadata, by_name, removed = self.metadata, {**self.by_name}, {**self.removed}
        for action in actions:
            metadata = action.get("metaData") or metadata
            if new := action.get("add"):
                file = ActiveFile.of(new)
                by_name[file.name] = file
                removed.pop(file.name, None)
            if old := action.get("remove"):
                name = unquote(old["path"])
                by_name.pop(name, None)
                removed[name] = old.get("deletionTimestamp") or 0
        return TableVersion(number, metadata, by_name, removed)
