"""One ZIP as the index describes it, and its JSON form (see `exporters.archive.shards`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from exporters.zips.container import Member
from exporters.zips.runs import Run
from transforms.block_range import BlockRange
from transforms.segments.id_chain import IdRun
from transforms.tables.registry import Column, TableSchema

Json = dict[str, Any]


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
    """One CSV inside a ZIP: rows without the header, length in bytes, SHA-256 of the text.

    `runs` are its header run and its body runs, so that it can be spliced without a look into the
    ZIP. `times` are those of its first and last block (RFC 3339, UTC, microseconds), which only a
    CSV of blocks has.
    """

    name: str
    version: int
    blocks: BlockRange
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
    segments: tuple[SegmentSource, ...]
    members: tuple[Csv, ...]

    @property
    def blocks(self) -> BlockRange:
        """From the first segment's first block to the last one's last."""
        return BlockRange(self.segments[0].blocks.first, self.segments[-1].blocks.last)

    @property
    def rows(self) -> int:
        """The rows of all CSVs in it."""
        return sum(member.rows for member in self.members)

    @property
    def times(self) -> tuple[str, str] | None:
        """When its first and last block were made, where its CSVs say so: those of `blocks`."""
        times = [member.times for member in self.members if member.times is not None]
        return (times[0][0], times[-1][1]) if times else None

    @property
    def zip_members(self) -> tuple[Member, ...]:
        """The members of the ZIP, as the index has their runs."""
        members: list[Member] = []
        for csv in self.members:
            # Nearly no ZIP has another one, and where one ends takes a header to find.
            start = members[-1].end if members else 0
            members.append(Member(csv.name, start, *csv.runs, csv.rows))
        return tuple(members)

    @property
    def is_bundle(self) -> bool:
        """Whether it repeats the rows of several single-segment ZIPs."""
        return len(self.segments) > 1


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
        "schema_versions": sorted({member.version for member in entry.members}),
        "segments": [_segment_json(segment) for segment in entry.segments],
        "members": [_csv_json(member) for member in entry.members],
    }


def entry_of(entry: Json, columns: Mapping[str, tuple[Column, ...]]) -> Entry:
    """The entry that `entry_json` wrote; `columns` by fingerprint."""
    segments = (
        SegmentSource(
            range_of(item),
            item["version"],
            item["id"],
            item["sha256"],
            item["previous_id"],
        )
        for item in entry["segments"]
    )
    members = (_csv_of(item, entry["table"], columns) for item in entry["members"])
    identity = (entry["table"], entry["path"], entry["bytes"], entry["sha256"])
    return Entry(*identity, tuple(segments), tuple(members))


def schemas_json(entries: Iterable[Entry]) -> Json:
    """The columns of every CSV, each list once, under its fingerprint."""
    schemas = {
        member.schema.fingerprint: member.schema.columns
        for entry in entries
        for member in entry.members
    }
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


def _csv_of(member: Json, table: str, columns: Mapping[str, tuple[Column, ...]]) -> Csv:
    schema = TableSchema(table, columns[member["schema"]])
    facts = (member["rows"], member["bytes"], member["sha256"])
    runs = (Run(*member["runs"]["header"]), Run(*member["runs"]["body"]))
    name, version = member["name"], member["schema_version"]
    return Csv(name, version, range_of(member), *facts, schema, runs, times_of(member))


def times_json(times: tuple[str, str] | None) -> Json:
    """First and last time as fields; none where they are not known."""
    return {} if times is None else {"first_time": times[0], "last_time": times[1]}


def times_of(item: Json) -> tuple[str, str] | None:
    """The times that `times_json` wrote."""
    return (item["first_time"], item["last_time"]) if "first_time" in item else None


def _segment_json(segment: SegmentSource) -> Json:
    return {
        **range_json(segment.blocks),
        "version": segment.version,
        "id": segment.segment_id,
        "previous_id": segment.previous_id,
        "sha256": segment.sha256,
    }


def _csv_json(member: Csv) -> Json:
    header, body = ([run.deflated, run.plain, run.crc32] for run in member.runs)
    return {
        "name": member.name,
        "schema_version": member.version,
        **range_json(member.blocks),
        "rows": member.rows,
        "bytes": member.bytes,
        "sha256": member.sha256,
        "schema": member.schema.fingerprint,
        "runs": {"header": header, "body": body},
        **times_json(member.times),
    }
