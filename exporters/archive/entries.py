"""One ZIP as the index describes it, and its JSON form (see `exporters.archive.shards`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from exporters.zip_names import NameStyle, csv_name, zip_name
from exporters.zips.container import Member
from exporters.zips.runs import Run
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.segments.id_chain import IdRun
from transforms.tables.registry import Column, TableSchema

Json = dict[str, Any]

# Of 75,000 entries, iterating over the class takes as long as the names.
_STYLES = tuple(NameStyle)


@dataclass(frozen=True, slots=True)
class SegmentSource:
    """A segment that a ZIP was made of: its blocks and schema version, its id and ZIP's SHA-256.

    `previous_id` is the id of the segment that it was made after, by its own word; empty where it
    names none.
    """

    blocks: BlockRange
    version: int
    segment_id: str
    sha256: str
    previous_id: str

    @property
    def id_run(self) -> IdRun:
        """The segment as the chain of ids has it."""
        return IdRun(self.blocks, self.blocks, self.segment_id, self.previous_id)


@dataclass(frozen=True, slots=True)
class Csv:
    """The CSV inside a ZIP: rows without the header, length in bytes, SHA-256 of the text.

    `runs` are its header run and its body runs, so that it can be spliced without a look into the
    ZIP. `times` are those of its first and last block (RFC 3339, UTC, microseconds), which only a
    CSV of blocks has.
    """

    name: str
    rows: int
    bytes: int
    sha256: str
    schema: TableSchema
    runs: tuple[Run, Run]
    times: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One published ZIP: its place below the chain's folder, its length in bytes, its SHA-256."""

    table: str
    path: str
    bytes: int
    sha256: str
    segment: SegmentSource
    csv: Csv

    @property
    def blocks(self) -> BlockRange:
        """The blocks of its segment."""
        return self.segment.blocks

    @property
    def rows(self) -> int:
        """The rows of its CSV."""
        return self.csv.rows

    @property
    def times(self) -> tuple[str, str] | None:
        """When its first and last block were made, where it is one of `blocks`."""
        return self.csv.times

    @property
    def member(self) -> Member:
        """The only member of the ZIP, as the index has its runs."""
        return Member(self.csv.name, 0, *self.csv.runs, self.csv.rows)


def range_json(blocks: BlockRange) -> Json:
    """A range as `{"from", "to"}`."""
    return {"from": blocks.first, "to": blocks.last}


def range_of(item: Json) -> BlockRange:
    """The range that `range_json` wrote."""
    return BlockRange(item["from"], item["to"])


def entry_json(entry: Entry) -> Json:
    """The entry as JSON values; columns are left to `schemas_json`."""
    return {
        "table": entry.table,
        **range_json(entry.blocks),
        "path": entry.path,
        "bytes": entry.bytes,
        "sha256": entry.sha256,
        "rows": entry.rows,
        "schema_version": entry.segment.version,
        "segment": _segment_json(entry.segment),
        "csv": _csv_json(entry.csv),
    }


def entry_of(entry: Json, columns: Mapping[str, tuple[Column, ...]]) -> Entry:
    """The entry that `entry_json` wrote; `columns` by fingerprint."""
    segment, csv = entry["segment"], entry["csv"]
    ids = (segment["id"], segment["sha256"], segment["previous_id"])
    runs = (Run(*csv["runs"]["header"]), Run(*csv["runs"]["body"]))
    schema = TableSchema(entry["table"], columns[csv["schema"]])
    return Entry(
        entry["table"],
        entry["path"],
        entry["bytes"],
        entry["sha256"],
        SegmentSource(range_of(entry), entry["schema_version"], *ids),
        Csv(csv["name"], entry["rows"], csv["bytes"], csv["sha256"], schema, runs, times_of(csv)),
    )


def check_names(
    chain_id: str, table: str, path: str, csv: str, version: int, blocks: BlockRange, place: str
) -> None:
    """Raise `IntegrityError` where an entry of a document is not named by what it holds.

    That is by spec 2.8.6 and 2.8.7, in either style.
    """
    for style in _STYLES:
        names = (
            zip_name(chain_id, table, blocks, style),
            csv_name(chain_id, table, version, blocks, style),
        )
        if (path, csv) == (f"{table}/{names[0]}", names[1]):
            return
    raise IntegrityError(
        f"{place}: {path} ({table}, blocks {blocks}) is not named as one of chain {chain_id} is: "
        "strata publish makes the document again"
    )


def schemas_json(entries: Iterable[Entry]) -> Json:
    """The columns of every CSV, each list once, under its fingerprint."""
    schemas = {entry.csv.schema.fingerprint: entry.csv.schema.columns for entry in entries}
    return {
        fingerprint: [{"name": column.name, "type": column.type} for column in columns]
        for fingerprint, columns in sorted(schemas.items())
    }


def columns_of(schemas: Json) -> dict[str, tuple[Column, ...]]:
    """The columns that `schemas_json` wrote, by fingerprint."""
    return {
        fingerprint: tuple(Column(column["name"], column["type"]) for column in columns)
        for fingerprint, columns in schemas.items()
    }


def times_json(times: tuple[str, str] | None) -> Json:
    """First and last time as fields; none where they are not known."""
    return {} if times is None else {"first_time": times[0], "last_time": times[1]}


def times_of(item: Json) -> tuple[str, str] | None:
    """The times that `times_json` wrote."""
    return (item["first_time"], item["last_time"]) if "first_time" in item else None


def _segment_json(segment: SegmentSource) -> Json:
    return {
        "id": segment.segment_id,
        "previous_id": segment.previous_id,
        "sha256": segment.sha256,
    }


def _csv_json(csv: Csv) -> Json:
    header, body = ([run.deflated, run.plain, run.crc32] for run in csv.runs)
    return {
        "name": csv.name,
        "bytes": csv.bytes,
        "sha256": csv.sha256,
        "schema": csv.schema.fingerprint,
        "runs": {"header": header, "body": body},
        **times_json(csv.times),
    }
