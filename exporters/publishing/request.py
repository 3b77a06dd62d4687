"""A request to publish a ZIP, and the proof that the ZIP is what it says (spec 2.8)."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from exporters.archive.entries import Csv, Entry, SegmentSource
from exporters.zip_names import CsvName, parse_csv_name
from exporters.zips.container import Member, local_header
from exporters.zips.layout import Layout
from exporters.zips.reader import read_csv, read_members
from exporters.zips.sources import ByteSource, LocalSource, read_exactly
from transforms.block_range import BlockRange, contiguous_runs
from transforms.bounds import lower_bound, rfc3339
from transforms.errors import IntegrityError, RangeError
from transforms.stores.store import content_sha256
from transforms.tables.registry import TableSchema


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """A local single-segment ZIP, or the layout of a wider one, and what must be in it.

    `schemas` has the columns of each CSV in order, `rows` the rows of all of them, `csv_sha256` the
    hash of each and `zip_sha256` that of the ZIP where they are known already; `proven` says that
    the file was read and found to have these hashes, and is the same since.
    """

    table: str
    content: Path | Layout
    segments: tuple[SegmentSource, ...]
    schemas: tuple[TableSchema, ...]
    rows: int
    csv_sha256: tuple[str, ...] = ()
    zip_sha256: str = ""
    proven: bool = False

    @property
    def name(self) -> str:
        """The ZIP's name."""
        return self.content.name

    @property
    def path(self) -> str:
        """Where it goes, below the chain's folder."""
        return f"{self.table}/{self.name}"

    @property
    def blocks(self) -> BlockRange:
        """From the first segment's first block to the last one's last."""
        return BlockRange(self.segments[0].blocks.first, self.segments[-1].blocks.last)


def proven_entry(request: PublishRequest, chain_id: str, zip_file: Path) -> Entry:
    """The index entry of a request whose ZIP is `zip_file`, compared with it.

    The ZIP is hashed and inflated unless it is proven already; the store hashes what it copies.

    Raises `IntegrityError` where the ZIP is damaged or holds anything else than the request says:
    other CSVs, blocks, columns, rows or text.
    """
    # Hashed before it is inflated: a file that is replaced later hashes to something else when the
    # store copies it, so it is refused there.
    zip_sha256 = request.zip_sha256 if request.proven else content_sha256(zip_file)
    if request.zip_sha256 and request.zip_sha256 != zip_sha256:
        raise _other(request, f"bytes with SHA-256 {zip_sha256}, {request.zip_sha256} were written")
    source = LocalSource.open(zip_file)
    members = read_members(source)
    names = [parse_csv_name(member.name) for member in members]
    _check_names(request, chain_id, names)
    rows = sum(member.rows for member in members)
    if rows != request.rows:
        raise _other(request, f"{rows} rows instead of {request.rows}")
    csvs = tuple(
        _proven_csv(request, source, member, name, number)
        for number, (member, name) in enumerate(zip(members, names, strict=True))
    )
    return Entry(request.table, request.path, source.size, zip_sha256, request.segments, csvs)


def _check_names(request: PublishRequest, chain_id: str, names: Sequence[CsvName]) -> None:
    strange = [name for name in names if (name.chain_id, name.table) != (chain_id, request.table)]
    if strange:
        raise _other(request, f"{strange[0].table} of chain {strange[0].chain_id}")
    runs = list(contiguous_runs(name.blocks for name in names))
    if runs != [request.blocks] or len(names) != len(request.schemas):
        what = ", ".join(str(name.blocks) for name in names)
        expected = f"{len(request.schemas)} over {request.blocks}"
        raise _other(request, f"CSVs over blocks {what}, not {expected}")


def _proven_csv(
    request: PublishRequest, source: ByteSource, member: Member, name: CsvName, number: int
) -> Csv:
    schema = request.schemas[number]
    if member.header.crc32 != zlib.crc32(schema.header):
        raise _other(request, f"other columns than {', '.join(schema.names)} in {member.name}")
    expected = request.csv_sha256[number] if request.csv_sha256 else None
    sha256 = expected if expected and request.proven else _text_sha256(request, source, member)
    if expected and expected != sha256:
        raise _other(request, f"{member.name} with SHA-256 {sha256}, not {expected}")
    facts = (member.rows, member.whole.plain, sha256)
    runs = (member.header, member.body)
    times = block_times(source, member, schema)
    return Csv(member.name, name.version, name.blocks, *facts, schema, runs, times)


def _text_sha256(request: PublishRequest, source: ByteSource, member: Member) -> str:
    """Inflate a CSV, whose record in the ZIP must be what its directory says, and hash it."""
    record = local_header(member)
    if read_exactly(source, member.offset, len(record)) != record:
        raise _other(request, f"another record before {member.name} than its directory says")
    digest = hashlib.sha256()
    for block in read_csv(source, member):
        digest.update(block)
    return digest.hexdigest()


def _other(request: PublishRequest, what: str) -> IntegrityError:
    return IntegrityError(f"{request.name} is not published: it holds {what}: make it again")


_LINE = 4096  # bytes; a row of blocks has a time, a height and a hash


def block_times(source: ByteSource, member: Member, schema: TableSchema) -> tuple[str, str] | None:
    """The times of the first and last block in a CSV of `blocks`, whose rows ascend by time.

    None for any other table, without rows, and where a cell is no time. Raises `IntegrityError`
    where the CSV is damaged.
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
    try:
        first, last = (
            lower_bound(line.decode(errors="replace").split(",")[place]).micros for line in lines
        )
    except (RangeError, IndexError):
        return None
    return None if first is None or last is None else (rfc3339(first), rfc3339(last))
