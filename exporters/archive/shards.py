"""The shards of the archive's index: the entries of its ZIPs. `index.json` sums them up.

Both are JSON in UTF-8 with fixed bytes: the same set of ZIPs gives the same index. Heights are
inclusive, sizes are bytes, hashes are hex SHA-256, paths are relative to the chain's folder.
Publishing one more segment rewrites its shard and `index.json`, whatever else the archive holds. A
reader that finds a shard newer than the index (another hash) reads the index again. Fields may be
added within `format` 1; a reader ignores those it does not know.

`<chain id>/index/<first block>.json`, one for the ZIPs that begin within 20,000 blocks:

    format, chain_id, from, to      the blocks in which its ZIPs begin
    schemas     columns (name, PostgreSQL type) by fingerprint
    zips        table, from, to, path, bytes, sha256, rows, schema_versions,
                segments [from, to, version, id?, sha256?]: the segments it was made of (a ZIP of
                    more than one is a window: it repeats the rows of their single ZIPs),
                members [name, schema_version, from, to, rows, bytes, sha256, schema, runs?]: its
                    CSVs; runs [header, body]: deflated bytes, plain bytes and CRC-32 of its header
                    run and of its body runs, all that splicing needs to know

`<chain id>/index.json`, the index:

    format, chain_id, first_block, last_block
    complete_until  the last block up to which all 15 tables are there, from first_block; or null
    complete, gaps  the runs of blocks for which all 15 tables are there, and the rest
    tables          per table: zips, rows and bytes of single ZIPs, windows, window_bytes, and
                    the runs of blocks covered (by either kind) and windowed (by windows)
    shards          path, from, to, bytes, sha256, covered, windowed, and tables as above; where a
                    table's covered or windowed is left out, it is that of the shard
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from exporters.archive.entries import Entry, Json, columns_of, entry_json, entry_of, schemas_json
from transforms.blocks import BlockRange
from transforms.errors import IntegrityError, SegmentError
from transforms.tables.registry import Column

FORMAT = 1
SHARD_BLOCKS = 20_000

_Parsed = TypeVar("_Parsed")
_LINE = ",\n"
# How a shard that `json_lines` wrote begins, where its columns begin, and where they end.
_HEAD = f'{{\n"format":{FORMAT},\n'.encode()
_SCHEMAS = b'\n"schemas":{\n'
_ZIPS = b'\n},\n"zips":['
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, SegmentError)


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
        return json_lines(document)

    @classmethod
    def parse(cls, data: bytes, place: str) -> Shard:
        """Read a shard; `place` names it in errors. Raises `IntegrityError`."""

        def read(found: Json) -> Shard:
            columns = columns_of(found["schemas"])
            entries = tuple(entry_of(item, columns) for item in found["zips"])
            return cls(found["chain_id"], found["from"] // SHARD_BLOCKS, entries)

        return parsed(data, place, read)


def table_entries(data: bytes, table: str, place: str) -> tuple[Entry, ...]:
    """The entries of one table in a shard, without parsing those of the others.

    As `Shard.to_bytes` writes it, each entry and each list of columns is a line of its own; a shard
    that somebody formatted otherwise is parsed as a whole. Raises `IntegrityError`.
    """
    start, end = data.find(_SCHEMAS), data.find(_ZIPS)
    if not (data.startswith(_HEAD) and 0 < start < end):
        return tuple(e for e in Shard.parse(data, place).entries if e.table == table)
    lines = _lines_from(data, f'\n{{"table":{_dumps(table)},'.encode(), end)
    try:
        columns = _columns(data[start + len(_SCHEMAS) : end])
        return tuple(entry_of(item, columns) for item in json.loads(b"[%s]" % b",".join(lines)))
    except _UNREADABLE as error:
        raise _unreadable(place, error) from error


def _lines_from(data: bytes, begin: bytes, at: int) -> Iterator[bytes]:
    """The lines that begin with these bytes (a line feed first), without the comma at their end."""
    while (at := data.find(begin, at)) >= 0:
        end = data.find(b"\n", at + 1)
        yield data[at + 1 : end].rstrip(b",")
        at = end


@lru_cache(maxsize=64)
def _columns(schemas: bytes) -> Mapping[str, tuple[Column, ...]]:
    """The columns by fingerprint: neighbouring shards have the same, written alike."""
    return columns_of(json.loads(b"{%s}" % schemas))


def shard_number(blocks: BlockRange) -> int:
    """The number of the shard that describes a ZIP over `blocks`."""
    return blocks.first // SHARD_BLOCKS


def shard_blocks(number: int) -> BlockRange:
    """The blocks in which the ZIPs of a shard begin."""
    return BlockRange(number * SHARD_BLOCKS, (number + 1) * SHARD_BLOCKS - 1)


def shard_path(number: int) -> str:
    """Where a shard lies below the chain's folder: it sorts as text like the blocks do."""
    return f"index/{number * SHARD_BLOCKS:09d}.json"


def json_lines(document: Json) -> bytes:
    """A JSON document with one line for every field, and for every item of a field's list or map.

    It reads well, compares well line by line, and its bytes follow from its values alone.
    """
    return f"{{\n{_LINE.join(map(_field, document.items()))}\n}}\n".encode()


def _field(field: tuple[str, Any]) -> str:
    name, value = field
    if isinstance(value, list) and value:
        return f"{_dumps(name)}:[\n{_LINE.join(map(_dumps, value))}\n]"
    if isinstance(value, dict) and value:
        items = (f"{_dumps(key)}:{_dumps(item)}" for key, item in value.items())
        return f"{_dumps(name)}:{{\n{_LINE.join(items)}\n}}"
    return f"{_dumps(name)}:{_dumps(value)}"


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def parsed(data: bytes, place: str, read: Callable[[Json], _Parsed]) -> _Parsed:
    """Read a JSON document of a known format. Raises `IntegrityError` naming the place."""
    try:
        found = json.loads(data)
        if found["format"] != FORMAT:
            raise IntegrityError(
                f"{place} has format {found['format']}, this release reads format {FORMAT}: "
                "use the release that wrote it, or a newer one"
            )
        return read(found)
    except _UNREADABLE as error:
        raise _unreadable(place, error) from error


def _unreadable(place: str, error: Exception) -> IntegrityError:
    return IntegrityError(
        f"{place} is no index of format {FORMAT} ({error!r}): restore it from a copy, or "
        "delete it and publish the segments of its blocks again"
    )
