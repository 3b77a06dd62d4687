"""The published CSVs of one table as columns: exports plan over 75,000 of them, and open few."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields

from exporters.archive.entries import Json, range_of
from exporters.archive.entry_names import NamedZip, check_names
from exporters.zips.container import Member, local_header_size
from exporters.zips.runs import STREAM_END, Run
from transforms.block_range import BlockRange
from transforms.tables.registry import Column, TableSchema

_HASH_BYTES = 32
_HASH_DIGITS = 2 * _HASH_BYTES
# Numbers, two names of about a hundred characters, and references to them.
_ROW_BYTES = 400


def _numbers() -> array[int]:
    return array("q")


@dataclass(frozen=True, slots=True)
class CsvColumns:
    """CSVs of published ZIPs, a row each: those of a ZIP one after the other, ZIPs ascending.

    What is said of a ZIP stands in the row of each of its CSVs. `numbers` count these from 0;
    `starts` are where their local headers begin in the ZIP, `offsets` where their data does;
    `zip_sha256` has the bytes of one hash after the other.
    """

    table: str
    firsts: array[int] = field(default_factory=_numbers)
    lasts: array[int] = field(default_factory=_numbers)
    rows: array[int] = field(default_factory=_numbers)
    numbers: array[int] = field(default_factory=_numbers)
    starts: array[int] = field(default_factory=_numbers)
    offsets: array[int] = field(default_factory=_numbers)
    header_deflated: array[int] = field(default_factory=_numbers)
    header_plain: array[int] = field(default_factory=_numbers)
    header_crcs: array[int] = field(default_factory=_numbers)
    body_deflated: array[int] = field(default_factory=_numbers)
    body_plain: array[int] = field(default_factory=_numbers)
    body_crcs: array[int] = field(default_factory=_numbers)
    zip_firsts: array[int] = field(default_factory=_numbers)
    zip_lasts: array[int] = field(default_factory=_numbers)
    zip_bytes: array[int] = field(default_factory=_numbers)
    zip_sha256: bytearray = field(default_factory=bytearray)
    names: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    schemas: list[TableSchema] = field(default_factory=list)

    @classmethod
    def joined(cls, table: str, runs: Iterable[CsvColumns]) -> CsvColumns:
        """Runs of one table, one after the other."""
        whole = cls(table)
        for run in runs:
            for name in _COLUMNS:
                getattr(whole, name).extend(getattr(run, name))
        return whole

    @property
    def memory(self) -> int:
        """About how many bytes they take in memory."""
        return len(self) * _ROW_BYTES

    def __len__(self) -> int:
        return len(self.firsts)

    def zip_of(self, row: int) -> ZipRow:
        """The ZIP in which the CSV of a row lies."""
        return ZipRow(self, row - self.numbers[row])

    def member(self, row: int) -> Member:
        """A CSV as a member of its ZIP."""
        header = Run(self.header_deflated[row], self.header_plain[row], self.header_crcs[row])
        body = Run(self.body_deflated[row], self.body_plain[row], self.body_crcs[row])
        return Member(self.names[row], self.starts[row], header, body, self.rows[row])


_COLUMNS = tuple(column.name for column in fields(CsvColumns) if column.name != "table")


@dataclass(frozen=True, slots=True)
class ZipRow:
    """A published ZIP by the row of its first CSV: what it takes to read and to prove it."""

    columns: CsvColumns
    row: int

    @property
    def table(self) -> str:
        """Its table."""
        return self.columns.table

    @property
    def path(self) -> str:
        """Its place below the chain's folder."""
        return self.columns.paths[self.row]

    @property
    def bytes(self) -> int:
        """Its length in bytes."""
        return self.columns.zip_bytes[self.row]

    @property
    def sha256(self) -> str:
        """Its SHA-256, in hex."""
        start = self.row * _HASH_BYTES
        return self.columns.zip_sha256[start : start + _HASH_BYTES].hex()

    @property
    def blocks(self) -> BlockRange:
        """Its blocks."""
        return BlockRange(self.columns.zip_firsts[self.row], self.columns.zip_lasts[self.row])

    @property
    def zip_members(self) -> tuple[Member, ...]:
        """Its members, as the index has their runs."""
        numbers = self.columns.numbers
        stop = self.row + 1
        while stop < len(numbers) and numbers[stop]:
            stop += 1
        return tuple(map(self.columns.member, range(self.row, stop)))


def csv_columns(
    table: str,
    items: Iterable[Json],
    columns: Mapping[str, tuple[Column, ...]],
    place: str,
    chain_id: str,
) -> CsvColumns:
    """The columns of entries as `exporters.archive.entries.entry_json` wrote them.

    `columns` are those of schemas, by fingerprint. Raises `IntegrityError` where an entry is not
    named by what it holds, and what reading a document that has other values can raise.
    """
    schemas = {name: TableSchema(table, schema) for name, schema in columns.items()}
    rows = [row for item in items for row in _rows(item, schemas, place, chain_id)]
    csvs = CsvColumns(table)
    for name, column in zip(_COLUMNS, zip(*rows, strict=True), strict=bool(rows)):
        getattr(csvs, name).extend(_hash_bytes(column) if name == "zip_sha256" else column)
    return csvs


def _hash_bytes(hashes: Sequence[str]) -> bytes:
    """The bytes of one hash after the other."""
    data = bytes.fromhex("".join(hashes))
    if {*map(len, hashes)} != {_HASH_DIGITS} or len(data) != len(hashes) * _HASH_BYTES:
        raise ValueError("a hash is no SHA-256")
    return data


def _rows(
    item: Json, schemas: Mapping[str, TableSchema], place: str, chain_id: str
) -> Iterator[tuple[object, ...]]:
    """The rows of a ZIP's CSVs, their values in the order of the columns."""
    path = item["path"]
    segments = [range_of(segment) for segment in item["segments"]]
    csvs = [(csv["name"], csv["schema_version"], range_of(csv)) for csv in item["members"]]
    named = NamedZip(item["table"], path, segments, csvs)
    check_names(named, chain_id, place)
    whole = (segments[0].first, segments[-1].last, item["bytes"], item["sha256"])
    start = 0
    for number, (csv, (name, _, blocks)) in enumerate(zip(item["members"], csvs, strict=True)):
        header, body = csv["runs"]["header"], csv["runs"]["body"]
        deflated = header[0] + body[0] + len(STREAM_END)
        offset = start + local_header_size(name, deflated, header[1] + body[1])
        places = (blocks.first, blocks.last, csv["rows"], number, start, offset)
        yield (*places, *header, *body, *whole, name, path, schemas[csv["schema"]])
        start = offset + deflated
