"""The shards of the archive's index: the entries of its ZIPs. `index.json` sums them up.

Both are JSON in UTF-8 with fixed bytes: the same set of ZIPs gives the same index; their fields are
in docs/formats.md. A shard is named by its first block and its hash. Publishing one more segment
writes a new shard, then an index that names it, whatever else the archive holds. Fields may be
added within a `format`; a reader ignores those it does not know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from exporters.archive.csv_columns import CsvColumns, csv_columns
from exporters.archive.entries import (
    Entry,
    Json,
    check_names,
    columns_of,
    entry_json,
    entry_of,
    schemas_json,
)
from exporters.archive.json_text import (
    FORMAT,
    UNREADABLE,
    check_document,
    dumps,
    parsed,
    unreadable,
    written,
)
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.tables.registry import Column

SHARD_BLOCKS = 20_000
SchemaColumns = Mapping[str, tuple[Column, ...]]
"""The columns of schemas, by fingerprint."""

# How a shard of this release begins, where its columns begin, and where they end.
_HEAD = f'{{\n"format":{FORMAT},\n'.encode()
_SCHEMAS = b'\n"schemas":{\n'
_ZIPS = b'\n},\n"zips":['


@dataclass(frozen=True, slots=True)
class Shard:
    """The entries of the ZIPs whose first block lies in one range of 20,000 blocks."""

    chain_id: str
    number: int
    entries: tuple[Entry, ...] = ()

    def __post_init__(self) -> None:
        ordered = sorted(self.entries, key=lambda entry: (entry.blocks, entry.table))
        object.__setattr__(self, "entries", tuple(ordered))

    @property
    def blocks(self) -> BlockRange:
        """The blocks in which its ZIPs begin."""
        return shard_blocks(self.number)

    def including(self, fresh: Iterable[Entry]) -> Shard:
        """The shard with entries added, or put in the place of those with the same path."""
        entries = {entry.path: entry for entry in (*self.entries, *fresh)}
        return Shard(self.chain_id, self.number, tuple(entries.values()))

    def to_bytes(self) -> bytes:
        """The shard as JSON."""
        document = {
            "format": FORMAT,
            "chain_id": self.chain_id,
            "from": self.blocks.first,
            "to": self.blocks.last,
            "schemas": schemas_json(self.entries),
            "zips": [entry_json(entry) for entry in self.entries],
        }
        return written(document)

    def hashes(self) -> bytes:
        """The hashes of its ZIPs, for `sha256sum -c` in the chain's folder."""
        return "".join(f"{entry.sha256}  {entry.path}\n" for entry in self.entries).encode()

    @classmethod
    def parse(cls, data: bytes, place: str) -> Shard:
        """Read a shard; `place` names it in errors.

        Raises `IntegrityError` where it is damaged, or an entry is not named by what it holds.
        """

        def read(document: Json) -> Shard:
            columns = columns_of(document["schemas"])
            entries = tuple(entry_of(item, columns) for item in document["zips"])
            return cls(document["chain_id"], document["from"] // SHARD_BLOCKS, entries)

        shard = parsed(data, place, read)
        _check(shard.entries, shard.chain_id, shard.number, place)
        return shard


def table_columns(data: bytes, table: str, place: str, chain_id: str, number: int) -> CsvColumns:
    """The entries of one table in a chain's shard, without parsing those of the others.

    As `Shard.to_bytes` writes it, each entry and each list of columns is a line of its own. Raises
    `IntegrityError` where it is damaged, is another shard, or an entry is not named by what it
    holds.
    """
    check_document(data, place)
    start, end = data.find(_SCHEMAS), data.find(_ZIPS)
    lines = _lines_from(data, f'\n{{"table":{dumps(table)},'.encode(), end)
    try:
        if not (data.startswith(_HEAD) and 0 < start < end):
            raise ValueError("its lines are not those that Strata writes")
        items = json.loads(b"[%s]" % b",".join(lines))
        columns = _columns(data[start + len(_SCHEMAS) : end])
        csvs = csv_columns(table, items, columns, place, chain_id)
    except UNREADABLE as error:
        raise unreadable(place, error) from error
    for first, path in zip(csvs.firsts, csvs.paths, strict=True):
        _check_place(first, path, number, place)
    return csvs


def _check(entries: Iterable[Entry], chain_id: str, number: int, place: str) -> None:
    for entry in entries:
        names = (entry.table, entry.path, entry.csv.name, entry.segment.version)
        check_names(chain_id, *names, entry.blocks, place)
        _check_place(entry.blocks.first, entry.path, number, place)


def _check_place(first: int, path: str, number: int, place: str) -> None:
    """Raise `IntegrityError` where a ZIP that begins at a block is in another shard's document."""
    if first // SHARD_BLOCKS != number:
        raise IntegrityError(
            f"{place}: {path} does not belong into this shard: strata publish makes it again"
        )


def _lines_from(data: bytes, begin: bytes, at: int) -> Iterator[bytes]:
    """The lines that begin with these bytes (a line feed first), without the comma at their end."""
    while (at := data.find(begin, at)) >= 0:
        end = data.find(b"\n", at + 1)
        yield data[at + 1 : end].rstrip(b",")
        at = end


@lru_cache(maxsize=64)
def _columns(schemas: bytes) -> SchemaColumns:
    """The columns by fingerprint: neighbouring shards have the same, written alike."""
    return columns_of(json.loads(b"{%s}" % schemas))


def shard_number(blocks: BlockRange) -> int:
    """The number of the shard that describes a ZIP over `blocks`."""
    return blocks.first // SHARD_BLOCKS


def shard_blocks(number: int) -> BlockRange:
    """The blocks in which the ZIPs of a shard begin."""
    return BlockRange(number * SHARD_BLOCKS, (number + 1) * SHARD_BLOCKS - 1)


_HASH_DIGITS = 16
_SHARD = re.compile(rf"index/(\d{{9,}})\.(?:[0-9a-f]{{{_HASH_DIGITS}}}\.json|(sha256))")


def shard_stem(number: int) -> str:
    """Return the path of a shard's documents, without their endings: it sorts like the blocks."""
    return f"index/{number * SHARD_BLOCKS:09d}"


def shard_path(number: int, sha256: str) -> str:
    """Return the path of a shard whose bytes have this hash."""
    return f"{shard_stem(number)}.{sha256[:_HASH_DIGITS]}.json"


def hashes_path(number: int) -> str:
    """Return the path of the hashes of a shard's ZIPs."""
    return f"{shard_stem(number)}.sha256"


def shard_at(path: str, *, of_hashes: bool = False) -> int | None:
    """Return the number of the shard, or hash list, at a path; None if none can be there."""
    match = _SHARD.fullmatch(path)
    number = int(match[1]) // SHARD_BLOCKS if match and bool(match[2]) is of_hashes else -1
    return number if number >= 0 and path.startswith(f"{shard_stem(number)}.") else None
