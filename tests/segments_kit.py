"""Builds any segment ZIP from plain rows, so that a test states only what matters to it.

Every table that the schema version knows is there by default: `blocks` with one row per height, the
others with their header only. Only the names of tables and columns come from the product; the bytes
are the work of `tests.pg_csv` and the standard library.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pytest

from tests.pg_csv import Cell, Field, decode, pg_csv, pg_field, tokens
from transforms.tables.registry import KnownTable, known_table, known_tables

__all__ = [
    "KIT_CHAIN",
    "Cell",
    "Field",
    "Table",
    "all_shared_segments",
    "block_rows",
    "block_time",
    "build_segment",
    "columns",
    "decode",
    "entry_bytes",
    "entry_name",
    "expected_member",
    "pg_csv",
    "pg_field",
    "table_rows",
    "tokens",
]

KIT_CHAIN = "kit-chain"
Table = tuple[Sequence[str], Iterable[Sequence[Cell]]] | bytes
"""A table's content: header and rows, or the very bytes of its CSV."""

_AS_NAMED: Mapping[str, object] = MappingProxyType({})
_GENESIS = datetime(2023, 1, 1, tzinfo=UTC)
_DEFAULTS = {
    "bytea": "\\x00",
    "bytea[]": "{}",
    "text[]": "{}",
    "jsonb": "{}",
    "text": "",
    "character varying": "",
    "character varying(32)": "",
    "boolean": "f",
    "numeric(1000,16)": "0.0000000000000000",
    **dict.fromkeys(
        ("smallint", "integer", "bigint", "hugeint", "numeric", "double precision"), "0"
    ),
}


def block_time(height: int, microseconds: int = 0) -> str:
    """The time of a block in this kit's chain, one second apart, as PostgreSQL prints it."""
    when = _GENESIS + timedelta(seconds=height, microseconds=microseconds)
    fraction = f".{when.microsecond:06d}".rstrip("0") if when.microsecond else ""
    return f"{when:%Y-%m-%d %H:%M:%S}{fraction}+00"


def _known(table: str, version: int) -> KnownTable:
    known = known_table(table, version)
    assert known is not None, f"no table {table} at version {version}"
    return known


def columns(table: str, version: int = 1) -> tuple[str, ...]:
    """The column names of a table at a schema version, in CSV order."""
    return _known(table, version).schema.names


def block_rows(first: int, last: int, chain_id: str = KIT_CHAIN) -> Iterator[tuple[str, str, str]]:
    """One row of `blocks` per height."""
    for height in range(first, last + 1):
        digest = hashlib.sha256(f"{chain_id} {height}".encode()).hexdigest()
        yield block_time(height), str(height), f"\\x{digest}"


def _plain_row(table: str, version: int, first: int, number: int) -> dict[str, Cell]:
    """A row whose values only vary where a key must not repeat."""
    known = _known(table, version)
    row: dict[str, Cell] = {}
    for column in known.schema.columns:
        row[column.name] = _DEFAULTS.get(column.type, "STATUS_UNSPECIFIED")
        if column.type.startswith("timestamp"):
            row[column.name] = block_time(first, number)
        elif column.name == "seq_num":
            row[column.name] = str(number)
        elif column.type == "bytea" and column.name in known.key:
            row[column.name] = f"\\x{number:064x}"
    return row


def table_rows(
    table: str, *rows: Mapping[str, Cell], version: int = 1, first: int = 1
) -> tuple[tuple[str, ...], list[list[Cell]]]:
    """Complete rows that name only some columns; the rest get a plain value of their type.

    Times are one microsecond apart from row to row and key columns count, so default keys ascend
    and never repeat. `first` is the block whose time the first row takes.
    """
    names = columns(table, version)
    full: list[list[Cell]] = []
    for number, row in enumerate(rows):
        unknown = row.keys() - set(names)
        assert not unknown, f"{table} has no column {unknown} at version {version}"
        full.append(list({**_plain_row(table, version, first, number), **row}.values()))
    return names, full


def entry_name(table: str, version: int = 1) -> str:
    """The name of a table's entry: `history/<table>` or `currentstate/<table>`."""
    known = known_table(table, version)
    folder = "history" if known is None or known.kind == "history" else "currentstate"
    return f"{folder}/{table}"


def _encode(table: Table) -> bytes:
    return table if isinstance(table, bytes) else pg_csv(*table)


def _write_zip(path: Path, entries: Iterable[tuple[str, bytes]]) -> None:
    with ZipFile(path, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a duplicate name may be the point
        for name, data in entries:
            info = ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type = ZIP_DEFLATED
            archive.writestr(info, data)


def build_segment(
    folder: Path,
    *,
    chain_id: str = KIT_CHAIN,
    version: int = 1,
    first: int = 1,
    last: int = 1000,
    tables: Mapping[str, Table] | None = None,
    omit: Collection[str] = (),
    extra_entries: Mapping[str, bytes] | None = None,
    metadata: Mapping[str, object] | None = _AS_NAMED,
    previous_id: str = "",
    corrupt: Callable[[bytes], bytes] | None = None,
) -> Path:
    """Write one segment ZIP into `folder` under its true name and return its path.

    `tables` replaces or adds tables; `omit` leaves tables out; `extra_entries` are written last,
    whatever their names; `metadata` overrides fields of metadata.json (None: no such entry);
    `corrupt` gets the finished ZIP and returns what is to lie on disk instead.
    """
    content: dict[str, Table] = {
        name: (columns(name, version), ()) for name in known_tables(version)
    }
    content["blocks"] = (columns("blocks", version), block_rows(first, last, chain_id))
    content.update(tables or {})
    kept = {entry_name(name, version): content[name] for name in content if name not in omit}
    entries = [(name, _encode(kept[name])) for name in sorted(kept)]
    entries += (extra_entries or {}).items()
    if metadata is not None:
        named = _metadata(chain_id, version, first, last, previous_id)
        entries.insert(0, ("metadata.json", json.dumps({**named, **metadata}).encode()))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{chain_id}-{version}-{first}-{last}.zip"
    _write_zip(path, entries)
    if corrupt is not None:
        path.write_bytes(corrupt(path.read_bytes()))
    return path


def _metadata(
    chain_id: str, version: int, first: int, last: int, previous_id: str
) -> dict[str, object]:
    return {
        "HeightFrom": first,
        "HeightTo": last,
        "DatabaseVersion": version,
        "ChainID": chain_id,
        "PreviousHistorySegmentID": previous_id,
    }


def entry_bytes(segment: Path, table: str) -> bytes:
    """The CSV bytes of one table in one segment ZIP."""
    with ZipFile(segment) as archive:
        names = [name for name in archive.namelist() if name.rpartition("/")[2] == table]
        assert len(names) == 1, f"{segment.name} holds {names} for {table}"
        return archive.read(names[0])


def expected_member(segments: Iterable[Path], table: str) -> bytes:
    """The CSV that an export of these segments must hold: one header, then every body in turn."""
    header, member = b"", []
    for segment in segments:
        line, feed, body = entry_bytes(segment, table).partition(b"\n")
        assert header in (b"", line + feed), f"{segment.name} has another header for {table}"
        header = line + feed
        member.append(body)
    return header + b"".join(member)


def all_shared_segments() -> list[Path]:
    """The folders of recorded segments, ascending; each holds the ZIPs of one chain.

    `STRATA_TEST_SHARED` says where they lie. Without them the calling test is skipped, or fails
    where `STRATA_TEST_REQUIRE_SHARED=1`.
    """
    default = Path(__file__).resolve().parents[1].parent / "shared"
    root = Path(os.environ.get("STRATA_TEST_SHARED") or default) / "segments"
    folders = sorted({path.parent for path in root.glob("**/*.zip")})
    if not folders:
        reason = f"no recorded segments in {root}: set STRATA_TEST_SHARED"
        if os.environ.get("STRATA_TEST_REQUIRE_SHARED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return folders
