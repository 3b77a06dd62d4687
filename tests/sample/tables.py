"""One CSV file for every table of a segment, written while the segment's blocks go by.

Memory holds a few thousand history rows at a time, whatever the size of the segment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import BinaryIO

from tests.sample.text import Row, csv_lines
from transforms.tables.registry import KnownTable, known_table, known_tables

_FLUSH_ROWS = 5_000
_TIME_KEYS = ("vega_time", "synthetic_time", "ledger_entry_time")


class TableFiles:
    """The CSV files of one segment, in a folder of their own that must be empty."""

    def __init__(self, folder: Path, version: int) -> None:
        self._history = _tables(version, "history")
        self._current = _tables(version, "current")
        self._folder = folder
        self._pending: dict[str, list[Row]] = {table: [] for table in self._history}
        self._files: dict[str, BinaryIO] = {}

    def add(self, table: str, rows: Collection[Row]) -> None:
        """Take the history rows of one block; they are written once there are enough of them."""
        pending = self._pending[table]
        pending += rows
        # A table that is sorted by id first can only be written whole; those tables are small.
        if len(pending) >= _FLUSH_ROWS and self._history[table].key[0] in _TIME_KEYS:
            self._flush(table)

    def close(self, current: Mapping[str, Collection[Row]]) -> dict[str, Path]:
        """Write what is left, and the current state; returns the file of each entry, sorted."""
        paths = {}
        for table in self._history:
            self._flush(table)
            self._files[table].close()
            paths[f"history/{table}"] = self._folder / table
        for table, known in self._current.items():
            paths[f"currentstate/{table}"] = path = self._folder / table
            path.write_bytes(known.schema.header + csv_lines(known, list(current.get(table, ()))))
        return dict(sorted(paths.items()))

    def _flush(self, table: str) -> None:
        known, rows = self._history[table], self._pending[table]
        if table not in self._files:
            self._files[table] = (self._folder / table).open("wb")
            self._files[table].write(known.schema.header)
        self._files[table].write(csv_lines(known, rows))
        rows.clear()


def _tables(version: int, kind: str) -> dict[str, KnownTable]:
    known = {table: known_table(table, version) for table in known_tables(version)}
    return {name: table for name, table in known.items() if table and table.kind == kind}
