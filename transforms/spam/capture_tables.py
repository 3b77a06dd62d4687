"""Spam captures in DuckDB: parties' counters as core nodes report them.

The counters of spam protection live in a core node's memory, so that no segment holds them. The
warehouse has one immutable file of them, which the next one replaces. Its tables:

captures        of each party the newest capture of its newest epoch
files           what was read, so that it is read once
refused_lines   the quarantine: lines that are no captures, by file and line, with the reason
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from transforms.duck import (
    Connection,
    attached,
    naming_large,
    new_database,
    read_only_connection,
    working_connection,
)
from transforms.objects import ObjectInfo, ObjectReader
from transforms.spam.capture_sources import (
    PREFIX,
    SUFFIXES,
    FoundCapture,
    RefusedLine,
    named_height,
    read_captures,
)

_BYTES_AT_ONCE = 8 * 2**20
_ROW_BYTES = 1000  # what a row takes as Python objects, besides its long text
_TABLES = {
    "captures": pa.schema(
        [
            ("party_id", pa.string()),
            ("epoch", pa.uint64()),
            ("height", pa.uint64()),
            ("file", pa.string()),
            ("line", pa.int64()),
            ("statistics", pa.string()),
        ]
    ),
    "refused_lines": pa.schema(
        [
            ("file", pa.string()),
            ("line", pa.int64()),
            ("reason", pa.string()),
            ("text", pa.string()),
        ]
    ),
    "files": pa.schema([("file", pa.string()), ("size", pa.int64()), ("version", pa.string())]),
}
_NEWEST = """
    create or replace table fresh.captures as
    select * from fresh.captures
    where rowid in (
        select arg_max(rowid, (epoch, height, file, line)) from fresh.captures group by party_id
    )
    order by party_id
"""


@dataclass(slots=True)
class CaptureReport:
    """What a load read: files, captures of parties, and lines (or whole files) refused."""

    files: int = 0
    captures: int = 0
    refused: int = 0


def new_captures(current: Path | None, reader: ObjectReader) -> list[ObjectInfo]:
    """The files of captures in a source that `current` has not read yet, or changed since."""
    records = {ObjectInfo(key, size, version) for key, size, version in _rows(current, "files")}
    files = (info for info in reader.list(PREFIX) if info.key.endswith(SUFFIXES))
    return sorted(info for info in files if _recorded(info) not in records)


def write_captures(
    path: Path,
    current: Path | None,
    fresh: Sequence[ObjectInfo],
    reader: ObjectReader,
    chain_id: str,
    memory_limit: str,
) -> CaptureReport:
    """Write a new file with what `current` has and what is fresh; bad lines keep their reason.

    Temporary files lie beside `path`. Errors of the source pass through.
    """
    report = CaptureReport()
    scratch = path.parent
    with (
        working_connection(scratch, memory_limit=memory_limit) as con,
        new_database(con, path, "fresh", sum(info.size for info in fresh)),
    ):
        _begin(con, current, map(_recorded, fresh))
        for info in fresh:
            record = _recorded(info)
            with naming_large(record.key, scratch):
                _add(con, record, _read(record.key, info.key, reader, scratch, chain_id), report)
        with naming_large("the newest spam captures of all parties", scratch):
            con.execute(_NEWEST)
    return report


def refused_lines(current: Path | None) -> list[RefusedLine]:
    """The lines that are no captures, by file and line."""
    return [RefusedLine(*row) for row in sorted(_rows(current, "refused_lines"))]


def _recorded(info: ObjectInfo) -> ObjectInfo:
    """A file as the tables name it: bytes of its name that are no UTF-8 are written out."""
    key = info.key.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return replace(info, key=key)


def _read(
    name: str, key: str, reader: ObjectReader, scratch: Path, chain_id: str
) -> Iterator[FoundCapture | RefusedLine]:
    """Fetch and read a file; one whose name is none of ours need not be fetched, nor could be."""
    height = named_height(name, chain_id)
    if height is None:
        yield RefusedLine(name, 0, f"it is not named {PREFIX}{chain_id}-<height>.ndjson", "")
        return
    path = scratch / "capture"
    reader.fetch(key, path)
    yield from read_captures(name, path, height, chain_id)


def _begin(con: Connection, current: Path | None, fresh: Iterable[ObjectInfo]) -> None:
    """Make the tables, with what is known already of files that are not read anew."""
    for table in _TABLES:
        _append(con, table, [], create=True)
    if current is None:
        return
    again = [info.key for info in fresh]
    with attached(con, current, "known", "(read_only)"):
        for table in _TABLES:
            con.execute(
                f"insert into fresh.{table} select * from known.{table} "  # noqa: S608 - ours
                "where not list_contains($1::varchar[], file)",
                [again],
            )


def _add(
    con: Connection,
    info: ObjectInfo,
    items: Iterator[FoundCapture | RefusedLine],
    report: CaptureReport,
) -> None:
    """Insert what one file has, some megabytes at a time."""
    waiting: dict[str, list[dict[str, Any]]] = {"captures": [], "refused_lines": []}
    size = 0
    for item in items:
        if isinstance(item, FoundCapture):
            row = {**asdict(item.capture), "height": item.height, "file": item.file}
            row |= {"line": item.line, "statistics": json.dumps(item.capture.statistics)}
            waiting["captures"].append(row)
            report.captures += 1
        else:
            row = asdict(item)
            waiting["refused_lines"].append(row)
            report.refused += 1
        size += _ROW_BYTES + len(row.get("statistics", "")) + len(row.get("text", ""))
        if size >= _BYTES_AT_ONCE:
            _flush(con, waiting)
            size = 0
    _flush(con, waiting)
    _append(con, "files", [{"file": info.key, "size": info.size, "version": info.version}])
    report.files += 1


def _flush(con: Connection, waiting: Mapping[str, list[dict[str, Any]]]) -> None:
    for table, rows in waiting.items():
        _append(con, table, rows)
        rows.clear()


def _append(
    con: Connection, table: str, rows: list[dict[str, Any]], *, create: bool = False
) -> None:
    con.register("rows", pa.Table.from_pylist(rows, schema=_TABLES[table]))
    what = f"create table fresh.{table} as" if create else f"insert into fresh.{table}"
    con.execute(f"{what} from rows")
    con.unregister("rows")


def _rows(current: Path | None, table: str) -> list[tuple[Any, ...]]:
    if current is None:
        return []
    with read_only_connection(current, threads=1) as con:
        return con.execute(f"from {table}").fetchall()
