"""What one version of a Delta table is made of: the actions of its log that still count."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any
from urllib.parse import unquote

from transforms.block_range import BlockRange
from transforms.errors import SegmentError

_NAME = re.compile(r"(\d{1,19})-(\d{1,19})\.([0-9a-f]{16})(?:\.([0-9a-f]{64}))?\.parquet")


@dataclass(frozen=True, slots=True)
class FileName:
    """The name of a file: the blocks of its segments, and the beginning of its SHA-256.

    One of current state has the SHA-256 of the CSV that it renders to, too: whoever publishes a
    newer segment sees by it whether the rows are the same.
    """

    blocks: BlockRange
    digest: str
    csv: str = ""

    def __str__(self) -> str:
        return ".".join(filter(None, (str(self.blocks), self.digest, self.csv, "parquet")))

    @classmethod
    def of(cls, blocks: BlockRange, sha256: str, csv: str = "") -> FileName:
        """The name of a file with this SHA-256 (hex); see the class for `csv`."""
        return cls(blocks, sha256[:16], csv)

    @staticmethod
    @lru_cache(maxsize=16_384)
    def parse(name: str) -> FileName | None:
        """What a name says; None for another one."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        try:
            return FileName(BlockRange(int(match[1]), int(match[2])), match[3], match[4] or "")
        except SegmentError:  # it ends before it begins
            return None


KEPT_HOURS = 168
"""How long a file that a table no longer names stays, for readers of older versions."""

TOLD_SECONDS = 2 * KEPT_HOURS * 3600
"""How long the log says when files were removed."""

SKIPPING = "delta.dataSkippingStatsColumns"
"""The property of a table that lists the columns with statistics."""

_COLUMNS = "strata.columns"

Action = Mapping[str, Any]
"""An action as Delta's protocol has it, or what is said of one thing in it."""


@dataclass(frozen=True, slots=True)
class ActiveFile:
    """A file that a table is made of: its name, its bytes, the JSON that the log has of it.

    `columns` are the names of its columns; none of a file that Strata did not write.
    """

    name: str
    bytes: int
    statistics: str = field(repr=False)
    columns: tuple[str, ...] = field(default=(), repr=False)

    @property
    def parsed(self) -> FileName | None:
        """What its name says; None of a file that Strata did not write."""
        return FileName.parse(self.name)

    @property
    def blocks(self) -> BlockRange:
        """The blocks of its segments. Only of a file that Strata wrote."""
        assert self.parsed is not None
        return self.parsed.blocks

    @property
    def csv(self) -> str:
        """See `FileName`; empty of a file that Strata did not write."""
        return self.parsed.csv if self.parsed else ""

    def is_of(self, sha256: str) -> bool:
        """Whether a file with this SHA-256 (hex) may have its name."""
        return self.parsed is not None and sha256.startswith(self.parsed.digest)

    @property
    def rows(self) -> int:
        """Its rows, as far as the log says it."""
        try:
            return int(json.loads(self.statistics)["numRecords"])
        except (ValueError, TypeError, LookupError):
            return 0

    def added(self, now: int) -> Action:
        """The action that adds it, at a time in milliseconds."""
        return {
            "path": self.name,
            "partitionValues": {},
            "size": self.bytes,
            "modificationTime": now,
            "dataChange": True,
            "stats": self.statistics,
            "tags": {_COLUMNS: ",".join(self.columns)},
        }

    def removed(self, now: int) -> Action:
        """The action that removes it."""
        return {
            "path": self.name,
            "deletionTimestamp": now,
            "dataChange": True,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": self.bytes,
        }


@dataclass(frozen=True)
class TableVersion:
    """A version of a table: its number, its metadata, files that are active, and that were.

    `added` and `removed` are actions by the file's name. Number -1 is that of no table.
    """

    number: int = -1
    metadata: Action = field(default_factory=dict)
    added: Mapping[str, Action] = field(default_factory=dict)
    removed: Mapping[str, Action] = field(default_factory=dict)

    @cached_property
    def files(self) -> tuple[ActiveFile, ...]:
        """The files that it is made of, by name."""
        return tuple(
            ActiveFile(
                name,
                added.get("size") or 0,
                added.get("stats") or "",
                tuple(filter(None, ((added.get("tags") or {}).get(_COLUMNS) or "").split(","))),
            )
            for name, added in sorted(self.added.items())
        )

    @cached_property
    def fields(self) -> list[dict[str, Any]]:
        """Its columns as the schema has them."""
        schema: dict[str, list[dict[str, Any]]] = json.loads(
            self.metadata.get("schemaString", "{}")
        )
        return schema.get("fields", [])

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """Its plain columns: Delta's types by name."""
        return {each["name"]: each["type"] for each in self.fields if isinstance(each["type"], str)}

    @property
    def statistics_of(self) -> frozenset[str]:
        """The columns of which the log has the least and the greatest value of every file."""
        described = self.metadata.get("configuration", {}).get(SKIPPING, "")
        return frozenset(filter(None, described.split(",")))

    def added_at(self, name: str) -> float:
        """When a file that it is made of was added, in Unix seconds."""
        return (self.added[name].get("modificationTime") or 0) / 1000

    def removed_at(self, name: str) -> float | None:
        """When a file was removed, in Unix seconds; None where the log does not say it."""
        action = self.removed.get(name)
        return (action.get("deletionTimestamp") or 0) / 1000 if action else None

    def since(self, oldest: float) -> TableVersion:
        """The same without what is said of files that were removed before a time."""
        removed = {n: a for n, a in self.removed.items() if (self.removed_at(n) or 0) >= oldest}
        return replace(self, removed=removed)

    def following(self, number: int, actions: Iterable[Action]) -> TableVersion:
        """The version after some more actions."""
        metadata, added, removed = self.metadata, {**self.added}, {**self.removed}
        for action in actions:
            metadata = action.get("metaData") or metadata
            if new := action.get("add"):
                name = unquote(new["path"])
                added[name] = new
                removed.pop(name, None)
            if old := action.get("remove"):
                name = unquote(old["path"])
                added.pop(name, None)
                removed[name] = old
        return TableVersion(number, metadata, added, removed)
