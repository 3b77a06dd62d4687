"""A request to publish a ZIP that was proven (spec 2.8; `exporters.exports.staged_zips`)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from exporters.archive.entries import Csv, Entry, SegmentSource
from exporters.zips.container import Member
from exporters.zips.reader import read_csv
from exporters.zips.sources import ByteSource, LocalSource
from transforms.bounds import lower_bound, rfc3339
from transforms.errors import RangeError
from transforms.tables.registry import TableSchema


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """A local ZIP of one table of one segment, the CSV in it, and the hashes of both.

    The store that takes it holds its bytes against the hash.
    """

    content: Path
    member: Member
    segment: SegmentSource
    schema: TableSchema
    csv_sha256: str
    zip_sha256: str

    @property
    def name(self) -> str:
        """The ZIP's name."""
        return self.content.name

    @property
    def path(self) -> str:
        """Where it goes, below the chain's folder."""
        return f"{self.schema.table}/{self.name}"

    def entry(self) -> Entry:
        """What the index says of it."""
        source, member, schema = LocalSource.open(self.content), self.member, self.schema
        runs, times = (member.header, member.body), block_times(source, member, schema)
        size = member.whole.plain
        csv = Csv(member.name, member.rows, size, self.csv_sha256, schema, runs, times)
        identity = (schema.table, self.path, source.size, self.zip_sha256)
        return Entry(*identity, self.segment, csv)


_LINE = 4096  # bytes; a row of blocks has a time, a height and a hash


def block_times(source: ByteSource, member: Member, schema: TableSchema) -> tuple[str, str] | None:
    """The times of the first and last block in a CSV of `blocks`, whose rows ascend by time.

    One that is not in the years 1 to 9999 is left out: the other one stands for both. None for any
    other table, without rows, and without times. Raises `IntegrityError` where the CSV is damaged.
    """
    if schema.table != "blocks" or "vega_time" not in schema.names or member.rows == 0:
        return None
    place = schema.names.index("vega_time")
    start = end = b""
    for block in read_csv(source, member):
        if start.count(b"\n") < 2:
            start += block
        end = end[-_LINE:] + block
    lines = (start.split(b"\n", 2)[1], end.rstrip(b"\n").rpartition(b"\n")[2])
    times = []
    for line in lines:
        with suppress(RangeError, IndexError):
            micros = lower_bound(line.decode(errors="replace").split(",")[place]).micros
            times += [] if micros is None else [rfc3339(micros)]
    return (times[0], times[-1]) if times else None
