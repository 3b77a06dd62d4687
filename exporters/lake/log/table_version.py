"""What one version of a Delta table is made of, whoever says it: its log, or who committed it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

KEPT_HOURS = 168
"""How long a file that a table no longer names stays, for readers of older versions."""

# A bucket is asked for each commit after the last checkpoint, whenever a table is opened.
VERSIONS_PER_CHECKPOINT = 10
"""How many versions of a table there are from one checkpoint to the next."""


@dataclass(frozen=True, slots=True)
class ActiveFile:
    """A file that a table is made of: its name, bytes and rows.

    `columns` are the names of its columns where this process wrote it: no log says them.
    """

    name: str
    bytes: int
    rows: int
    columns: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A file to be named by a table; `statistics` is the JSON that the log has of it.

    `columns` are the names of its columns, where they are known.
    """

    name: str
    bytes: int
    statistics: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version of a table: its number, its files by name, its plain columns with their types.

    `columns` are by name, with Delta's types; `statistics_of` are those of which the log has the
    least and the greatest value of every file.
    """

    number: int
    files: tuple[ActiveFile, ...]
    columns: Mapping[str, str]
    statistics_of: frozenset[str]

    def following(self, added: Iterable[AddedFile], removed: Iterable[ActiveFile]) -> TableVersion:
        """The next version, after a commit that names files and names others no longer."""
        gone = {file.name for file in removed}
        files = {file.name: file for file in self.files if file.name not in gone}
        for file in added:
            rows = json.loads(file.statistics)["numRecords"]
            files[file.name] = ActiveFile(file.name, file.bytes, rows, file.columns)
        ordered = tuple(sorted(files.values(), key=lambda file: file.name))
        return replace(self, number=self.number + 1, files=ordered)
