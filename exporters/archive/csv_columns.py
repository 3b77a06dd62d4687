"""The published CSVs of one table as columns: exports plan over 75,000 of them, and open few."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields

from exporters.archive.entries import Json, check_names, range_of
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
    """Published ZIPs, a row each, ascending: their blocks, and the CSV in each.

    `offsets` are where its data begins in the ZIP; `zip_sha256` and `csv_sha256` have the bytes of
    one hash after the other.
    """

    table: str
    firsts: array[int] = field(default_factory=_numbers)
    lasts: array[int] = field(default_factory=_numbers)
    rows: array[int] = field(default_factory=_numbers)
    offsets: array[int] = field(default_factory=_numbers)
    header_deflated: array[int] = field(default_factory=_numbers)
    header_plain: array[int] = field(default_factory=_numbers)
    header_crcs: array[int] = field(default_factory=_numbers)
    body_deflated: array[int] = field(default_factory=_numbers)
    body_plain: array[int] = field(default_factory=_numbers)
    body_crcs: array[int] = field(default_factory=_numbers)
    zip_bytes: array[int] = field(default_factory=_numbers)
    zip_sha256: bytearray = field(default_factory=bytearray)
    csv_sha256: bytearray = field(default_factory=bytearray)
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


def digests(column: bytearray) -> Iterator[bytes]:
    """The bytes of each SHA-256 in a column that has one after the other."""
    data = bytes(column)
    return (data[at : at + _HASH_BYTES] for at in range(0, len(data), _HASH_BYTES))


_COLUMNS = tuple(column.name for column in fields(CsvColumns) if column.name != "table")


@dataclass(frozen=True, slots=True)
class ZipRow:
    """A published ZIP by its row: what it takes to read and to prove it."""

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
        return BlockRange(self.columns.firsts[self.row], self.columns.lasts[self.row])

    @property
    def member(self) -> Member:
        """Its only member, as the index has its runs."""
        csvs, row = self.columns, self.row
        header = Run(csvs.header_deflated[row], csvs.header_plain[row], csvs.header_crcs[row])
        body = Run(csvs.body_deflated[row], csvs.body_plain[row], csvs.body_crcs[row])
        return Member(csvs.names[row], 0, header, body, csvs.rows[row])


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
    rows = [_row(item, schemas, place, chain_id) for item in items]
    csvs = CsvColumns(table)
    for name, column in zip(_COLUMNS, zip(*rows, strict=True), strict=bool(rows)):
        getattr(csvs, name).extend(_hash_bytes(column) if name.endswith("sha256") else column)
    return csvs


def _hash_bytes(hashes: Sequence[str]) -> bytes:
    """The bytes of one hash after the other."""
    data = bytes.fromhex("".join(hashes))
    if {*map(len, hashes)} != {_HASH_DIGITS} or len(data) != len(hashes) * _HASH_BYTES:
        raise ValueError("a hash is no SHA-256")
    return data


def _row(
    item: Json, schemas: Mapping[str, TableSchema], place: str, chain_id: str
) -> tuple[object, ...]:
    """The row of a ZIP, its values in the order of the columns."""
    csv, blocks = item["csv"], range_of(item)
    name, path = csv["name"], item["path"]
    check_names(chain_id, item["table"], path, name, item["schema_version"], blocks, place)
    header, body = csv["runs"]["header"], csv["runs"]["body"]
    deflated = header[0] + body[0] + len(STREAM_END)
    offset = local_header_size(name, deflated, header[1] + body[1])
    places = (blocks.first, blocks.last, item["rows"], offset)
    hashes = (item["sha256"], csv["sha256"])
    whole = (item["bytes"], *hashes, name, path, schemas[csv["schema"]])
    return (*places, *header, *body, *whole)
