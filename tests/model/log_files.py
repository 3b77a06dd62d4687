"""What the newest snapshot of a warehouse's log names, and what else lies in its folders.

This is all that the model test knows of the warehouse's inside: numbered snapshots below `log`, and
files whose names end with their SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.pipelines.kit import SIZE

_FILE = re.compile(r"[a-z][^\s]*/[^\s]*\.[0-9a-f]{64}\.[a-z]+")
_BLOCKS = re.compile(r"(\d+)-(\d+)\.")
_GRACE_DAYS, _ORPHAN_DAYS = 1, 7


def snapshots(warehouse: Path) -> list[Path]:
    """The snapshots of the log, oldest first."""
    return sorted((warehouse / "log").glob("*.json"))


def named_files(warehouse: Path) -> set[str]:
    """The files that the newest snapshot names, as paths below the warehouse."""
    newest = snapshots(warehouse)[-1:]
    content = json.loads(newest[0].read_bytes()) if newest else {}
    content.pop("dropped", None)
    return {text for text in _texts(content) if _FILE.fullmatch(text)}


def remembered_files(warehouse: Path) -> set[str]:
    """The files that the newest snapshot names, or says that it names no more."""
    contents = (json.loads(path.read_bytes()) for path in snapshots(warehouse)[-1:])
    return {text for content in contents for text in _texts(content) if _FILE.fullmatch(text)}


def present_files(warehouse: Path) -> set[str]:
    """The files that have such a name, named or not."""
    paths = (path.relative_to(warehouse).as_posix() for path in warehouse.rglob("*"))
    return {path for path in paths if _FILE.fullmatch(path)}


def numbers_of(path: str) -> range:
    """The numbers of the segments whose blocks a file's name says; of a copy of a ZIP none."""
    match = _BLOCKS.match(path.rpartition("/")[2])
    return range((int(match[1]) - 1) // SIZE, int(match[2]) // SIZE) if match else range(0)


def wrong_files(warehouse: Path) -> Iterator[str]:
    """The named files that are not there, or not what their name says, as sentences."""
    for name in sorted(named_files(warehouse)):
        path = warehouse / name
        if not path.exists():
            yield f"{name} is named by the newest snapshot and is not there"
        elif hashlib.sha256(path.read_bytes()).hexdigest() != name.rsplit(".", 2)[1]:
            yield f"{name} is not what its name says"


@dataclass(slots=True)
class Shelf:
    """Since when (in days of the clock) files are there that no snapshot names."""

    unnamed_since: dict[str, float] = field(default_factory=dict)
    once_named: set[str] = field(default_factory=set)
    _read: set[Path] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)
    _excused: set[str] | None = field(default_factory=set)

    def forget(self) -> None:
        """Somebody else changed the folder: what was seen counts no more."""
        self.unnamed_since.clear()
        self.once_named.clear()
        self._read.clear()
        self._seen.clear()
        self._excused = None

    def look(self, warehouse: Path, days: float, *, is_swept: bool) -> Iterator[str]:
        """Take note of what is there; what was swept too early, as sentences.

        Without `is_swept` a sweep may have died before the log forgot what it deleted.
        """
        present, named = present_files(warehouse), named_files(warehouse)
        self._take_names(snapshots(warehouse))
        remembered = remembered_files(warehouse)
        absent = remembered - present
        if self._excused is None:  # what a log that was put back says of their age is not ours
            self._excused = absent | (present - named)
        for name in sorted(absent - self._excused) if is_swept else ():
            yield f"{name} is in the newest snapshot, and is not there"
        for name in sorted((self.once_named & present) - remembered - self._excused):
            yield f"{name} was named, is there, and the newest snapshot says nothing of it"
        for name in self._seen - present:
            since = self.unnamed_since.pop(name, days)
            kept_days = _GRACE_DAYS if name in self.once_named else _ORPHAN_DAYS
            if days - since < kept_days and name not in self._excused:
                yield f"{name} was deleted {days - since:g} days after it was named"
        for name in named:
            self.unnamed_since.pop(name, None)
        for name in present - named:
            self.unnamed_since.setdefault(name, days)
        self._seen = present

    def _take_names(self, paths: Iterable[Path]) -> None:
        """Take note of what snapshots name that were not read yet, or say that they dropped."""
        for path in set(paths) - self._read:
            texts = _texts(json.loads(path.read_bytes()))
            self.once_named |= {text for text in texts if _FILE.fullmatch(text)}
            self._read.add(path)

    def overdue(self, loaded: Iterable[int], days: float) -> Iterator[str]:
        """What a sweep should have deleted by now, as sentences; `loaded` are segments' numbers."""
        numbers = set(loaded)
        for name, since in sorted(self.unnamed_since.items()):
            kept_days = _GRACE_DAYS if name in self.once_named else _ORPHAN_DAYS
            if days - since > kept_days and numbers.issuperset(numbers_of(name)):
                yield f"{name} was not swept {days - since:g} days after it was named"


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict):
        yield from _data_files(content)
        for each in content.values():
            yield from _texts(each)
    elif isinstance(content, list):
        for each in content:
            yield from _texts(each)


def _data_files(volume: dict[str, Any]) -> Iterator[str]:
    """The data files of a volume: of each table with rows, a shape, SHA-256 and size are listed."""
    for table, (_, *file) in volume.get("tables", {}).items():
        if file:
            first, last = volume["blocks"]
            name = f"{first:09}-{last:09}.{file[0]}"
            yield f"state/{name}.duckdb" if table == "*" else f"data/{table}/{name}.parquet"
