"""CSVs rendered from a lake by Polars and by pyarrow, written so that tests have an oracle.

Nothing here may import the product. What is read: a table's Parquet files, its Delta log, and the
table `manifests`, which has the columns of every CSV in order. A cell's text is that of `_raw`,
where the row has one for its column, and else that of the value as PostgreSQL prints it (spec 2.8).
Columns are found by their names with A to Z folded, as segments may write one column differently.
"""

from __future__ import annotations

import json
import os
import re
import string
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.pg_csv import Cell, pg_csv

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FOLDED = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@dataclass(frozen=True, slots=True)
class CsvReceipt:
    """One table of one segment: what the lake says of its CSV."""

    table: str
    first: int
    last: int
    columns: Sequence[tuple[str, str]]
    rows: int
    bytes: int
    sha256: str

    @classmethod
    def all_of(cls, rows: Iterable[Mapping[str, Any]]) -> list[CsvReceipt]:
        """The receipts of rows of the table `manifests`."""
        return [
            cls(
                receipt["table_name"],
                row["first_block"],
                row["last_block"],
                [(name, kind) for name, kind in json.loads(receipt["columns"])],
                receipt["rows"],
                receipt["bytes"],
                receipt["sha256"],
            )
            for row in rows
            for receipt in row["receipts"]
        ]


class LakeReader(Protocol):
    """Renders CSVs from the lake in a folder; `raw_cells` counts the texts it took from `_raw`."""

    raw_cells: int

    def __init__(self, folder: Path) -> None: ...

    def receipts(self) -> list[CsvReceipt]:
        """What the lake has receipts of."""
        ...

    def csv(self, receipt: CsvReceipt) -> bytes:
        """Render one table of one segment."""
        ...


def log_actions(table: Path) -> list[dict[str, Any]]:
    """The actions of a table's log, oldest first, by the commits as they lie there."""
    commits = sorted((table / "_delta_log").glob("*.json"))
    return [json.loads(line) for path in commits for line in path.read_text().splitlines() if line]


def active_files(table: Path) -> list[Path]:
    """The files of the newest version of a Delta table, by its log alone."""
    named: dict[str, None] = {}
    for action in log_actions(table):
        if "add" in action:
            named[unquote(action["add"]["path"])] = None
        elif "remove" in action:
            named.pop(unquote(action["remove"]["path"]), None)
    return [table / name for name in named]


def _fold(name: str) -> str:
    return name.translate(_FOLDED)


def _kept_texts(texts: Mapping[str, str | None] | None) -> dict[str, str]:
    """A row's `_raw`, by folded names."""
    return {_fold(name): text for name, text in (texts or {}).items() if text is not None}


class PolarsLake:
    """Whole columns at a time, by expressions of Polars."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables: dict[str, pl.DataFrame] = {}
        self.raw_cells = 0

    def receipts(self) -> list[CsvReceipt]:
        frame = pl.scan_delta(str(self._folder / "manifests"))
        return CsvReceipt.all_of(frame.collect().to_dicts())

    def _table(self, name: str) -> pl.DataFrame:
        if name not in self._tables:
            self._tables[name] = pl.scan_delta(str(self._folder / name)).collect()
        return self._tables[name]

    def csv(self, receipt: CsvReceipt) -> bytes:
        if not (self._folder / receipt.table).exists():  # a table that never had rows
            return pg_csv([name for name, _ in receipt.columns], [])
        held = self._table(receipt.table).filter(pl.col("_segment") == receipt.first)
        frame = held.sort("_row")
        assert frame["_row"].to_list() == list(range(1, len(frame) + 1))
        header = ",".join(name for name, _ in receipt.columns) + "\n"
        if frame.is_empty():
            return header.encode()
        raw = [_kept_texts(texts) for texts in frame["_raw"].to_list()]
        kept = {name for texts in raw for name in texts}
        self.raw_cells += sum(len(texts) for texts in raw)
        names = {_fold(name): name for name in frame.columns}
        fields = []
        for column, kind in receipt.columns:
            name = _fold(column)
            value = pl.lit(None, pl.String)
            if name in names:
                value = _polars_text(frame, names[name], kind)
            if name in kept:
                text = pl.Series([texts.get(name) for texts in raw], dtype=pl.String)
                value = pl.coalesce(pl.lit(text), value)
            fields.append(_polars_field(value))
        # All columns at once: each query of Polars takes as long as thousands of cells.
        line = pl.concat_str(fields, separator=",").alias("_line")
        return (header + "\n".join(frame.with_columns(line)["_line"]) + "\n").encode()


def _polars_text(frame: pl.DataFrame, name: str, kind: str) -> pl.Expr:
    """The texts of a column's values; NULL where there is none."""
    held, value = frame.schema[name], pl.col(name)
    if kind == "bytea":
        return pl.concat_str(pl.lit("\\x"), value)
    if held == pl.Boolean:
        return pl.when(value).then(pl.lit("t")).when(~value).then(pl.lit("f"))
    if held == pl.Float64:
        return value.map_elements(shortest_double, return_dtype=pl.String)
    if held == pl.Datetime("us", "UTC"):
        micros = value.dt.epoch("us") % 1_000_000
        digits = micros.cast(pl.String).str.zfill(6).str.strip_chars_end("0")
        fraction = (
            pl.when(micros == 0).then(pl.lit("")).otherwise(pl.concat_str(pl.lit("."), digits))
        )
        return pl.concat_str(value.dt.strftime("%Y-%m-%d %H:%M:%S"), fraction, pl.lit("+00"))
    return value.cast(pl.String)


def _polars_field(text: pl.Expr) -> pl.Expr:
    """The fields of spec 2.8.2-3."""
    quoted = pl.concat_str(pl.lit('"'), text.str.replace_all('"', '""', literal=True), pl.lit('"'))
    needed = text.str.contains('[,"\r\n]') | (text == "")
    return pl.when(needed).then(quoted).otherwise(text).fill_null("")


class PyarrowLake:
    """Cell by cell in Python, from files that pyarrow reads and the log as plain JSON names."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables: dict[str, list[pa.Table]] = {}
        self.raw_cells = 0

    def receipts(self) -> list[CsvReceipt]:
        rows = (row for file in self._files("manifests") for row in file.to_pylist())
        return CsvReceipt.all_of(rows)

    def _files(self, name: str) -> list[pa.Table]:
        if name not in self._tables:
            self._tables[name] = [_read(path) for path in active_files(self._folder / name)]
        return self._tables[name]

    def csv(self, receipt: CsvReceipt) -> bytes:
        rows: list[tuple[int, tuple[Cell, ...]]] = []
        for file in self._files(receipt.table):
            held = file.filter(pc.equal(file["_segment"], receipt.first))
            rows += zip(held["_row"].to_pylist(), self._cells(held, receipt), strict=True)
        rows.sort()
        assert [row for row, _ in rows] == list(range(1, len(rows) + 1))
        return pg_csv([name for name, _ in receipt.columns], [cells for _, cells in rows])

    def _cells(self, file: pa.Table, receipt: CsvReceipt) -> list[tuple[Cell, ...]]:
        """The cells of all rows, in the order of the CSV's columns."""
        if not len(file):
            return []
        raw = [_kept_texts(dict(texts or ())) for texts in file["_raw"].to_pylist()]
        self.raw_cells += sum(len(texts) for texts in raw)
        names = {_fold(name): name for name in file.column_names}
        columns: list[list[Cell]] = []
        for name, kind in receipt.columns:
            values: list[Any] = [None] * len(file)
            if _fold(name) in names:
                values = _plain_values(file[names[_fold(name)]])
            texts = [kept.get(_fold(name)) for kept in raw]
            pairs = zip(values, texts, strict=True)
            columns.append([_text(value, kind, text) for value, text in pairs])
        return [*zip(*columns, strict=True)]


def _read(path: Path) -> pa.Table:
    with pq.ParquetFile(path) as file:
        return file.read(use_threads=False)


def _plain_values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        assert column.type == pa.timestamp("us", "UTC")
        micros = column.cast(pa.int64()).to_pylist()
        return [None if one is None else _EPOCH + timedelta(microseconds=one) for one in micros]
    return column.to_pylist()  # type: ignore[no-any-return]


def _text(value: Any, kind: str, raw: Cell) -> Cell:
    """The text of a cell: the one that was kept, or the value's as PostgreSQL prints it."""
    if raw is not None or value is None:
        return raw
    if isinstance(value, str):
        return f"\\x{value}" if kind == "bytea" else value
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        return shortest_double(value)
    if isinstance(value, datetime):
        fraction = f".{value.microsecond:06}".rstrip("0") if value.microsecond else ""
        return f"{value.replace(microsecond=0).isoformat(' ')[:19]}{fraction}+00"
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def shortest_double(value: float) -> str:
    """A float8 as PostgreSQL prints it: an exponent below 1e-4 and from 1e15 on (Python: 1e16)."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    text = repr(value)
    if "e" in text or abs(value) < 1e15:
        return text.removesuffix(".0")
    sign, digits, _ = Decimal(text.removesuffix(".0")).as_tuple()
    figures = "".join(map(str, digits)).rstrip("0")
    point = f"{figures[0]}.{figures[1:]}" if len(figures) > 1 else figures
    return f"{'-' * sign}{point}e+15"


READERS: Mapping[str, type[LakeReader]] = {"polars": PolarsLake, "pyarrow": PyarrowLake}


def age(lake: Path, days: float) -> None:
    """Let all files of a lake, or of a table, be so many days old, by the store and by its logs."""
    then = time.time() - days * 24 * 3600
    for path in lake.rglob("*"):
        if path.suffix == ".json":
            text = re.sub(
                r'"(deletionTimestamp|timestamp|modificationTime)":\d+',
                lambda found: f'"{found[1]}":{int(then * 1000)}',
                path.read_text(),
            )
            if path.parent.name == "_delta_log":  # without the hash of the other lines
                text = re.sub(r',"sha256":"[0-9a-f]{64}"', "", text, count=1)
            path.chmod(0o644)
            path.write_text(text)
        if path.is_file():
            os.utime(path, (then, then))
