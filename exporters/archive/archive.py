"""One chain's archive in a store: where everything lies (docs/formats.md), and how it is read."""

from __future__ import annotations

import errno
import hashlib
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeVar

from exporters.archive.csv_columns import CsvColumns, ZipRow
from exporters.archive.document_store import DocumentStore
from exporters.archive.entries import Entry, Json
from exporters.archive.index import ArchiveIndex, ShardSummary, parse_index
from exporters.archive.json_text import parsed
from exporters.archive.shards import SHARD_BLOCKS, Shard, table_columns
from transforms.block_range import BlockRange
from transforms.bounded_cache import BoundedCache
from transforms.errors import BusyError, IntegrityError
from transforms.objects import ObjectInfo, ObjectReader
from transforms.stores.store import (
    LostRaceError,
    RefusedError,
    Store,
    asked_together,
    read_as_is,
)
from transforms.warehouse.log.seen import SeenSnapshot

if TYPE_CHECKING:
    from exporters.signing_keys import Signer
    from exporters.zips.sources import ByteSource

_Result = TypeVar("_Result")

# Parsing costs more than reading. Equal bytes are an equal index, so nothing can be stale. Each
# counts as one byte: two are kept.
_indexes = BoundedCache[tuple[bytes, ArchiveIndex]](2)
_index_states = BoundedCache[tuple[str, ArchiveIndex]](2)
_parsed_shard = lru_cache(maxsize=8)(Shard.parse)
# Two tables of 75,000 segments, each segment a ZIP.
_COLUMNS_BYTES = 64 * 2**20
_columns = BoundedCache[CsvColumns](_COLUMNS_BYTES)
_ATTEMPTS = 100
_LONGEST_PAUSE_SECONDS = 0.2


class StaleShardError(IntegrityError):
    """A shard is gone, or has other bytes than the index says."""


@dataclass(frozen=True, slots=True)
class Archive:
    """The archive of `chain_id` in `store`.

    Its publisher signs with `signer`, if any, and records `seen` of its warehouse in the index. A
    mirror has the records `warehouses` of its source in the index.
    """

    store: Store
    chain_id: str
    signer: Signer | None = None
    seen: SeenSnapshot | None = None
    warehouses: tuple[SeenSnapshot, ...] = ()

    def key(self, path: str) -> str:
        """The object's key for a path below the chain's folder."""
        return f"{self.chain_id}/{path}"

    def place(self, path: str) -> str:
        """The path's full address, for a person."""
        return self.store.describe(self.key(path))

    def index(self) -> ArchiveIndex:
        """Read the index without its shards; that of an archive without one is empty.

        Raises `IntegrityError` where it is damaged or that of another chain.
        """
        data = self.read("index.json")
        if data is None:
            return ArchiveIndex(self.chain_id)
        return self.parse_index(data)

    def parse_index(self, data: bytes) -> ArchiveIndex:
        """Read the index from its bytes. Raises what `index` does."""
        place = self.place("index.json")
        index = known_index(data, place)
        if index.chain_id != self.chain_id:
            raise IntegrityError(
                f"{place} is the index of chain {index.chain_id}: strata publish makes it again"
            )
        return index

    def read_twice(self, work: Callable[[ArchiveIndex], _Result]) -> _Result:
        """Do work with the index and its shards; again with a new index if a shard differs.

        A publication may replace both during the work. Raises `StaleShardError` the second time.
        """
        try:
            return work(self.index())
        except StaleShardError:
            return work(self.index())

    def shard(self, number: int, index: ArchiveIndex | None = None) -> Shard:
        """Read a shard of the index, which is read unless it is given.

        A shard that the index does not name is empty. Raises `StaleShardError` where it is gone or
        has other bytes than the index says, `IntegrityError` where it cannot be read.
        """
        summary = (index or self.index()).shards.get(number)
        if summary is None:
            return Shard(self.chain_id, number)
        return self.parse_shard(summary, self.shard_bytes(summary))

    def shard_bytes(self, summary: ShardSummary) -> bytes:
        """Read a shard of the index. Raises `StaleShardError` unless it has the index's hash."""
        data = self.read(summary.path)
        if data is None or hashlib.sha256(data).hexdigest() != summary.sha256:
            what = "is gone" if data is None else "has other bytes than index.json says"
            raise StaleShardError(
                f"{self.place(summary.path)} {what}: its keeper's strata publish makes it again"
            )
        return data

    def parse_shard(self, summary: ShardSummary, data: bytes) -> Shard:
        """Read a shard from its bytes. Raises `IntegrityError` if it is another shard."""
        place = self.place(summary.path)
        shard = _parsed_shard(data, place)
        if (shard.chain_id, shard.number) != (self.chain_id, summary.number):
            raise IntegrityError(
                f"{place} is the shard of blocks {shard.blocks} of chain {shard.chain_id}: strata "
                "publish makes it again"
            )
        return shard

    def entries(self, table: str, blocks: BlockRange, index: ArchiveIndex) -> list[Entry]:
        """Return the published ZIPs of a table that hold any of these blocks, by first block.

        Reads together the shards that such ZIPs can be in. Raises what `shard` does.
        """
        summaries = [index.shards[number] for number in index.reaching(blocks)]
        contents = asked_together(self.store, self.shard_bytes, summaries)
        shards = map(self.parse_shard, summaries, contents)
        entries = (entry for shard in shards for entry in shard.entries)
        return [e for e in entries if e.table == table and e.blocks.overlaps(blocks)]

    def csvs_inside(
        self,
        table: str,
        blocks: BlockRange,
        unreadable: Callable[[IntegrityError], object],
    ) -> CsvColumns:
        """The CSVs of a table's published ZIPs in all shards that a range begins or ends in.

        Costs what the range costs: the index is read once as long as it stays what it is, and of
        each shard only what the table has. Shards that are damaged are passed over; `unreadable`
        gets the error.
        """
        numbers = range(blocks.first // SHARD_BLOCKS, blocks.last // SHARD_BLOCKS + 1)
        try:
            shards = self._known_index().shards
        except IntegrityError as error:
            unreadable(error)
            return CsvColumns(table)
        read_shard = partial(self._table_columns, table, unreadable)
        summaries = [shards[number] for number in numbers if number in shards]
        return CsvColumns.joined(table, asked_together(self.store, read_shard, summaries))

    def _known_index(self) -> ArchiveIndex:
        """The index; it is read again only if the store has another version of it."""
        key, place = self.key("index.json"), self.place("index.json")
        version, index = _index_states.get(place) or ("", ArchiveIndex(self.chain_id))
        info = self.store.head(key)
        if info is None or info.version != version:
            # The version comes first: bytes newer than it are only read once more.
            index = self.index()
            _index_states.put(place, (info.version if info else "", index), 1)
        return index

    def _table_columns(
        self,
        table: str,
        unreadable: Callable[[IntegrityError], object],
        summary: ShardSummary,
    ) -> CsvColumns:
        place = self.place(summary.path)
        columns = _columns.get((place, summary.sha256, table))
        if columns is None:
            try:
                data = self.shard_bytes(summary)
                columns = table_columns(data, table, place, self.chain_id, summary.number)
            except IntegrityError as error:
                unreadable(error)
                return CsvColumns(table)
            _columns.put((place, summary.sha256, table), columns, columns.memory)
        return columns

    def source(self, entry: Entry | ZipRow, state: str | None = None) -> ByteSource:
        """The bytes of a published ZIP; their version is their SHA-256, whatever the store.

        With `state`, the store's own version of the object, only that one is read.
        """
        # Whoever looks reads no ZIP.
        from exporters.zips.sources import LocalSource, ObjectSource

        key = self.key(entry.path)
        if (path := self.store.path(key)) is not None:
            return LocalSource(path, entry.bytes, entry.sha256, state or "")
        return ObjectSource(self.store, ObjectInfo(key, entry.bytes, entry.sha256), state)

    def read(self, path: str) -> bytes | None:
        """Read a whole small object below the chain's folder, or None where it is absent."""
        return read_small(self.store, self.key(path))


def read_small(store: Store, key: str) -> bytes | None:
    """Read an object that fits in memory, or None where it is absent.

    One that lies damaged in the store is answered as it is: documents prove themselves.
    """
    try:
        with refused_as_absent(store, key):
            return read_as_is(store, key)
    except FileNotFoundError:
        return None


@contextmanager
def refused_as_absent(reader: ObjectReader, key: str) -> Iterator[None]:
    """Turn the refusal of an object that need not exist into `FileNotFoundError`.

    Many web hosts refuse what they do not have. `SHA256SUMS` of the chain lists the documents that
    exist: raises `RefusedError` for these, and for the list.
    """
    try:
        yield
    except RefusedError as refusal:
        chain_id, _, path = key.partition("/")
        if not path or f"  {path}\n".encode() in reader.read(f"{chain_id}/SHA256SUMS"):
            raise
        raise FileNotFoundError(errno.ENOENT, "There is no such object", key) from refusal


def update(
    store: Store, key: str, change: Callable[[bytes | None], bytes], content_type: str
) -> bool:
    """Change a small object by compare-and-swap; return whether it had to be written.

    `change` gets the present bytes (None: absent) and is called again when another writer was
    faster; what it reads by itself is then at least as new as what it replaces. Raises `BusyError`
    when others win all the time.
    """

    def written() -> bool:
        documents = DocumentStore(store)
        is_changed = documents.change(key, change)
        if is_changed:
            documents.put({key: content_type})
        return is_changed

    return won_race(written, store.describe(key))


def put_new(store: Store, key: str, content: bytes, content_type: str) -> None:
    """Write a small object that is rarely there; whatever is there is replaced."""
    try:
        store.put_if_match(key, content, None, content_type)
    except LostRaceError:
        update(store, key, lambda _: content, content_type)


def won_race(work: Callable[[], _Result], place: str) -> _Result:
    """Do work, and again whenever it loses a race to another writer.

    Raises `BusyError`, which names the place, when others win all the time.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return work()
        except LostRaceError:
            time.sleep(random.uniform(0, min(0.01 * attempt, _LONGEST_PAUSE_SECONDS)))
    raise BusyError(f"others keep changing {place}: try again later")


def known_index(data: bytes, place: str) -> ArchiveIndex:
    """The index of these bytes, parsed unless it is known. Raises as `parse_index` does."""
    known_data, index = _indexes.get(place) or (None, None)
    if index is None or known_data != data:
        index = parse_index(data, place)
        keep_index(data, place, index)
    return index


def keep_index(data: bytes, place: str, index: ArchiveIndex) -> None:
    """Keep an index that was parsed, or that these bytes were made of."""
    _indexes.put(place, (data, index), 1)


CHAINS = "chains.json"


def chains(store: Store) -> tuple[str, ...]:
    """The ids of the chains that have an archive in the store, sorted.

    Raises `IntegrityError` where the list of them is damaged.
    """
    return parse_chains(read_small(store, CHAINS), store)


def parse_chains(data: bytes | None, store: Store) -> tuple[str, ...]:
    """The list from its bytes (None: there is none)."""

    def read(document: Json) -> tuple[str, ...]:
        return tuple(item["chain_id"] for item in document["chains"])

    return parsed(data, store.describe(CHAINS), read) if data else ()
