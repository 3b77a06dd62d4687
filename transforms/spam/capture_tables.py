"""Spam captures in DuckDB: parties' counters as core nodes report them.

The counters of spam protection live in a core node's memory, so that no segment holds them: a
source has files `spam/<chain id>-<height>.ndjson` (also `.gz`), a line per party. The warehouse has
one immutable file of them, which the next one replaces. Its tables:

captures        of each party the newest capture of its newest epoch
refused_lines   the quarantine: lines that are no captures, by file and line, with the reason;
                line 0 is the file as a whole
files           what was read, so that it is read once
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from transforms.duck import (
    Connection,
    attached,
    naming_large,
    new_database,
    quote_text,
    read_only_connection,
    working_connection,
)
from transforms.errors import UnreadableObjectError
from transforms.objects import ObjectInfo, ObjectReader
from transforms.segments.source import fetch_object
from transforms.spam.capture_lines import (
    MAX_LINE_BYTES,
    MAX_STATISTICS_BYTES,
    CaptureLineError,
    parse_capture,
)

_PREFIX = "spam/"
_SUFFIXES = (".ndjson", ".ndjson.gz")
_NAME = re.compile(r"spam/(?P<chain>.+)-(?P<height>[0-9]{1,19})\.ndjson(\.gz)?")
_TABLES = {
    "captures": {
        "party_id": "varchar",
        "epoch": "ubigint",
        "height": "ubigint",
        "file": "varchar",
        "line": "bigint",
        "statistics": "varchar",
    },
    "refused_lines": {"file": "varchar", "line": "bigint", "reason": "varchar"},
    "files": {"file": "varchar", "size": "bigint", "version": "varchar"},
}
_Row = tuple[str, Mapping[str, Any]]
_NEWEST = """
    create or replace table fresh.captures as
    select * from fresh.captures
    where rowid in (
        select arg_max(rowid, (epoch, height, file, line)) from fresh.captures group by party_id
    )
    order by party_id
"""


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line that is no capture and why; line 0 is the file as a whole."""

    file: str
    line: int
    reason: str


def new_captures(current: Path | None, reader: ObjectReader) -> list[ObjectInfo]:
    """The files of captures in a source that `current` has not read yet, or changed since."""
    known = capture_rows(current, "files")
    records = {ObjectInfo(key, size, version) for key, size, version in known}
    files = (info for info in reader.list(_PREFIX) if info.key.endswith(_SUFFIXES))
    return sorted(info for info in files if replace(info, key=_shown(info.key)) not in records)


def write_captures(
    path: Path,
    current: Path | None,
    fresh: Sequence[ObjectInfo],
    reader: ObjectReader,
    chain_id: str,
    memory_limit: str,
) -> None:
    """Write a new file with what `current` has and what is fresh; bad lines keep their reason.

    Temporary files lie beside `path`. Errors of the whole source pass through.
    """
    scratch = path.parent
    paths = {table: scratch / f"{table}.ndjson" for table in _TABLES}
    with ExitStack() as opened:
        files = {table: opened.enter_context(paths[table].open("wb")) for table in _TABLES}
        for info in fresh:
            for table, row in _read(info, reader, scratch / "capture", chain_id):
                files[table].write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
    size = sum(info.size for info in fresh)
    with (
        working_connection(scratch, memory_limit=memory_limit) as con,
        naming_large("the spam captures of all parties", scratch),
        new_database(con, path, "fresh", size),
    ):
        for table, columns in _TABLES.items():
            con.execute(
                f"create table fresh.{table} as from read_json({quote_text(paths[table])}, "
                f"format = 'newline_delimited', columns = {columns}, "
                f"maximum_object_size = {2 * MAX_STATISTICS_BYTES})"
            )
        if current is not None:
            _keep(con, current, [_shown(info.key) for info in fresh])
        con.execute(_NEWEST)


def _keep(con: Connection, current: Path, but: Sequence[str]) -> None:
    """Take over the rows that a file of captures has, but for those of some files."""
    with attached(con, current, "known", "(read_only)"):
        for table in _TABLES:
            con.execute(
                f"insert into fresh.{table} select * from known.{table} "  # noqa: S608 - ours
                "where not list_contains($1::varchar[], file)",
                [but],
            )


def _shown(key: str) -> str:
    """A file as the tables name it: bytes of its name that are no UTF-8 are written out."""
    return key.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _read(info: ObjectInfo, reader: ObjectReader, path: Path, chain_id: str) -> Iterator[_Row]:
    """The rows of one file, each with its table; blank lines are passed over.

    A file that the source does not give is no row of `files`, so that it is tried again.
    """
    file, number = _shown(info.key), 0
    known = "files", {"file": file, "size": info.size, "version": info.version}
    name = _NAME.fullmatch(file)
    if name is None or name["chain"] != chain_id:  # it need not be fetched, nor could be
        yield known
        yield _refused(file, 0, f"it is not named {_PREFIX}{chain_id}-<height>.ndjson")
        return
    try:
        fetch_object(reader, info.key, path)
    except UnreadableObjectError as error:
        yield _refused(file, 0, str(error))
        return
    yield known
    with gzip.open(path) if file.endswith(".gz") else path.open("rb") as stream:
        try:
            for number, line in enumerate(_lines(stream), start=1):  # type: ignore[arg-type]
                if line.strip():
                    yield _row(file, number, line, chain_id, int(name["height"]))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            yield _refused(file, 0, f"it cannot be unpacked after line {number}: {error}")


def _row(file: str, number: int, line: bytes, chain_id: str, height: int) -> _Row:
    try:
        row = parse_capture(line, chain_id)
    except CaptureLineError as error:
        return _refused(file, number, str(error))
    return "captures", {**row, "height": height, "file": file, "line": number}


def _refused(file: str, line: int, reason: str) -> _Row:
    return "refused_lines", {"file": file, "line": line, "reason": reason}


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Lines without their ends; of one that is too long no more than shows that it is."""
    most = MAX_LINE_BYTES + 2
    while line := stream.readline(most):
        rest = line
        while len(rest) == most and not rest.endswith(b"\n"):
            rest = stream.readline(most)
        yield line.rstrip(b"\r\n")


def capture_rows(current: Path | None, table: str) -> list[tuple[Any, ...]]:
    """All rows of a table of a file of captures, if there is one."""
    if current is None:
        return []
    with read_only_connection(current, threads=1) as con:
        return con.execute(f"from {table}").fetchall()
