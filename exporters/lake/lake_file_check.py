"""Whether a file of the lake has what its name, its table's log and its receipts say.

The check of the lake and what corrects it ask the same, so that what one finds the other mends.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from exporters.archive.lake_place import RECEIPTS
from exporters.lake.receipt_file import read_receipt_rows, receipt_statistics
from exporters.lake.tables import HeldFile, Version
from transforms.duck import Connection
from transforms.errors import IntegrityError
from transforms.lake.parquet_files import LakeFile, opened_file
from transforms.lake.statistics import Statistics, fitted
from transforms.tables.file_columns import OWN_COLUMNS, FileColumn, file_columns
from transforms.tables.registry import fold_case, history_tables
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.manifests.shapes import shapes_of


@dataclass(frozen=True, slots=True)
class FileCheck:
    """The check of one file: `copy` is the file, which hashes to what its name says.

    `receipts` are those of all its segments, ascending; None where they are not known, and then
    nothing is rendered. `rendered` is called for each CSV that was right; `opened` reads it.
    `is_rendered` says that a file of the same bytes was seen to render what they say.
    """

    version: Version
    file: HeldFile
    copy: Path
    scratch: Path
    receipts: Sequence[Receipt] | None
    rendered: Callable[[], None] = lambda: None
    opened: Connection | None = None
    is_rendered: bool = False

    def problems(self) -> Iterator[str]:
        """What is wrong, in words; the first ones may hide others."""
        size = self.copy.stat().st_size
        if size != self.file.size:
            yield f"it has {size} bytes, its table's log says {self.file.size}"
        try:
            if self.version.table == RECEIPTS:
                yield from self._receipts()
            else:
                yield from self._rows()
        except IntegrityError as error:
            yield str(error)

    def _rows(self) -> Iterator[str]:
        opened = self.opened or self.version.lake.memory_mb
        with opened_file(self.copy, self.scratch, self.receipts or (), opened) as file:
            columns = self._columns(file)
            file.check_types(columns)
            yield from self._table_types(columns)
            yield from self._logged(file.statistics(columns))
            if self.receipts is None:
                return
            file.check_rows()
            for receipt, digest in self._digests(file):
                if digest != receipt.sha256:
                    yield (
                        f"segment {receipt.blocks} renders to SHA-256 {digest}, its receipt says "
                        f"{receipt.sha256}"
                    )
                else:
                    self.rendered()

    def _digests(self, file: LakeFile) -> Iterator[tuple[Receipt, str]]:
        if self.is_rendered:
            return ((receipt, receipt.sha256) for receipt in self.receipts or ())
        return file.digests()

    def _columns(self, file: LakeFile) -> Sequence[FileColumn]:
        """The columns that it should have, by its receipts, or else those of its table."""
        content = self.version.content
        if self.receipts is None:
            own = {column.name for column in OWN_COLUMNS}
            names = [name for name in file.names() if name not in own]
            types, described = content.columns, content.statistics_of
            return [
                FileColumn(name, types[name], name in described) for name in names if name in types
            ]
        shape = shapes_of(self.receipts).get(self.version.table)
        spelling = self.version.spelling
        columns = [
            replace(column, name=spelling.get(fold_case(column.name), column.name))
            for column in (shape.column_list() if shape else ())
        ]
        return file_columns(self.version.table, columns)

    def _table_types(self, columns: Sequence[FileColumn]) -> Iterator[str]:
        types = self.version.content.columns
        for column in columns:
            if types.get(column.name) != column.type:
                logged_type = types.get(column.name) or "not there"
                yield f"column {column.name} is {column.type} in it, and {logged_type} in its table"

    def _logged(self, statistics: Statistics) -> Iterator[str]:
        """Hold rows and statistics against the log: by a wrong one readers pass over rows."""
        text = self.version.stored.statistics.get(self.file.file.name, "")
        described = self.version.content.statistics_of
        expected, logged = json.loads(fitted(statistics.text, described)), _parsed(text)
        if not statistics.rows:  # it may be older than columns that were described since
            expected["nullCount"] = {
                name: count
                for name, count in expected["nullCount"].items()
                if name in logged.get("nullCount", {})
            }
        for part, values in expected.items():
            if logged.get(part) != values:
                yield f"its table's log says {part} {logged.get(part)}, it has {values}"
                return
        if more := logged.keys() - expected.keys() - {"tightBounds"}:
            yield f"its table's log has statistics that Strata does not write: {sorted(more)}"

    def _receipts(self) -> Iterator[str]:
        rows = read_receipt_rows(self.copy)
        keys = [(row["_segment"], row["last_block"], row["table_name"]) for row in rows]
        if any(first >= second for first, second in pairwise(keys)):
            yield "its rows do not ascend by segment and table"
        if others := {table for *_, table in keys} - {*history_tables()}:
            yield f"it is about tables that are not of history: {', '.join(sorted(others))}"
        yield from self._logged(receipt_statistics(rows))


def _parsed(text: str) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError):
        return {}
