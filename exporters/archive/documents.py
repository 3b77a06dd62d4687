"""What follows from the published entries: hash lists, the index, the pages.

Every document is computed from the ones before it, so it can be made again at any time, by any
publisher, and comes out the same. Writing them in waves, each by compare-and-swap, leaves nothing
stale when a publisher dies or two publish at once. One that is damaged is made again.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING

from exporters.archive.archive import (
    CHAINS,
    Archive,
    chains,
    keep_index,
    known_index,
    parse_chains,
    won_race,
)
from exporters.archive.conditions import conditions_json, day_conditions
from exporters.archive.document_store import DocumentStore
from exporters.archive.entries import range_json
from exporters.archive.hash_lists import ENDING, SIGNATURES, SUMS, signature, sums_text
from exporters.archive.index import ArchiveIndex, ShardSummary, extent_json, index_bytes
from exporters.archive.json_text import FORMAT, written
from exporters.archive.lake_place import LAKE, LOG, MANIFESTS
from exporters.archive.page import chain_page, home_page, shard_page
from exporters.archive.public_sql import PUBLIC_DATABASE, PUBLIC_SQL, unsealed_sql
from exporters.archive.revisions import check_present
from exporters.archive.schema_documents import schema_json, schema_page
from exporters.archive.shards import Shard, hashes_path, shard_stem
from exporters.archive.sound_documents import (
    CONDITIONS,
    HOME,
    INDEX,
    LATEST,
    LISTED,
    PAGE,
    SCHEMA,
    SCHEMA_PAGE,
    sound_address,
    sound_revisions,
)
from exporters.archive.stored_shards import rebuilt_index
from exporters.archive.sums import completeness
from transforms.collector import collector_paused
from transforms.errors import IntegrityError
from transforms.stores.store import Store, asked_together

if TYPE_CHECKING:
    from exporters.signing_keys import Signer

_HTML, _JSON, _TEXT = "text/html; charset=utf-8", "application/json", "text/plain; charset=utf-8"
_log = logging.getLogger(__name__)


class Wave(IntEnum):
    """When a document is written: beside those of its wave, after all of the waves before."""

    INDEX = 0
    PAGES = 1
    LISTS = 2
    SIGNATURES = 3


@dataclass(frozen=True, slots=True)
class ArchiveDocument:
    """A small object that follows from others; `content` gets the bytes it has now, if any."""

    key: str
    content_type: str
    content: Callable[[bytes | None], bytes]
    wave: Wave = Wave.PAGES


PUBLIC_SQL_READERS = (PAGE, SUMS, *(f"{name}{ENDING}" for name in SIGNATURES))
"""What follows from `strata.sql`: the page has its address, the list its hash."""


IndexChange = Callable[[ArchiveIndex], ArchiveIndex]
"""Writes shards, and returns the index that names them; it is called again after a lost race."""


def refresh(
    archive: Archive,
    numbers: Iterable[int],
    paths: Collection[str] | None = None,
    change: IndexChange = lambda index: index,
) -> int:
    """Change the index, and all that follows from it and these shards; return how many changed.

    With `paths`, write only these documents of the chain.

    All documents are read before what they follow from, so that the write of whoever went by older
    ones is refused: he begins again. Raises `BusyError` where others win all the time.
    """
    shards, written = list(numbers), list[str]()

    @collector_paused()
    def write() -> None:
        store = DocumentStore(archive.store)
        reading = replace(archive, store=store)
        pending = [
            document
            for document in documents(reading, shards, change)
            if paths is None or document.key in map(archive.key, paths)
        ]
        index = archive.key(INDEX)
        store.read_first(document.key for document in pending if document.key != index)
        store.read_first([index])
        changed = [d for d in pending if store.change(d.key, d.content)]
        for wave in Wave:
            types = {d.key: d.content_type for d in changed if d.wave is wave}
            store.put(types)
            written.extend(types)

    won_race(write, archive.place(""))
    return len(written)


def documents(
    archive: Archive, numbers: Iterable[int], change: IndexChange = lambda index: index
) -> Iterator[ArchiveDocument]:
    """The index and what follows from it and these shards, each after what it follows from."""
    shards = sorted(set(numbers))
    index, *others = chain_documents(archive, shards, change)
    yield index
    for number in shards:
        yield from shard_documents(archive, number, archive.shard)
    yield from others


def shard_documents(
    archive: Archive, number: int, read_shard: Callable[[int], Shard]
) -> Iterator[ArchiveDocument]:
    """The documents that follow from one shard alone, which is read when they are computed."""
    hashes, page = archive.key(hashes_path(number)), archive.key(f"{shard_stem(number)}.html")
    yield ArchiveDocument(hashes, _TEXT, lambda _: read_shard(number).hashes())
    yield ArchiveDocument(page, _HTML, lambda _: shard_page(read_shard(number)))


def chain_documents(
    archive: Archive, shards: Collection[int], change: IndexChange = lambda index: index
) -> Iterator[ArchiveDocument]:
    """The changed index, which sums up these shards again, and what follows from all shards."""
    index = partial(_index, archive, shards, change)
    yield ArchiveDocument(archive.key(INDEX), _JSON, index, Wave.INDEX)
    yield ArchiveDocument(archive.key(SCHEMA), _JSON, lambda _: schema_json(archive.chain_id))
    yield ArchiveDocument(archive.key(SCHEMA_PAGE), _HTML, lambda _: schema_page(archive.chain_id))
    yield ArchiveDocument(archive.key(CONDITIONS), _JSON, lambda _: _conditions(archive))
    yield ArchiveDocument(archive.key(LATEST), _JSON, lambda _: _latest(archive))
    yield ArchiveDocument(archive.key(PAGE), _HTML, lambda _: _chain_page(archive))
    yield ArchiveDocument(archive.key(SUMS), _TEXT, partial(_sums, archive), Wave.LISTS)
    if archive.signer is not None:
        for name in SIGNATURES:
            yield _signature(archive, archive.signer, name)
    yield ArchiveDocument(CHAINS, _JSON, lambda old: _chains(archive, old), Wave.LISTS)
    yield ArchiveDocument(HOME, _HTML, lambda _: home_page([*_indexes(archive.store)]), Wave.LISTS)


def _signature(archive: Archive, signer: Signer, name: str) -> ArchiveDocument:
    key = archive.key(f"{name}{ENDING}")
    content = partial(signature, archive, signer, name)
    return ArchiveDocument(key, _TEXT, content, Wave.SIGNATURES)


def _index(
    archive: Archive, numbers: Iterable[int], change: IndexChange, old: bytes | None
) -> bytes:
    try:
        index = known_index(old, archive.place(INDEX)) if old else None
    except IntegrityError as error:
        _log.warning("%s; it is made again from the shards", error)
        index = None
    if index is None or index.chain_id != archive.chain_id:
        index = rebuilt_index(archive)
    index = change(index)
    index = index.including(_summaries(archive, index, numbers))
    # Where anything was ever published to the lake, its manifests have a log.
    log = archive.key(f"{LAKE}/{MANIFESTS}/{LOG}/")
    has_lake = next(iter(archive.store.list(log)), None) is not None
    warehouses = archive.warehouses or index.warehouses
    index = replace(index, has_lake=has_lake, warehouses=warehouses).recording(archive.seen)
    data = index_bytes(index)
    keep_index(data, archive.place(INDEX), index)
    return data


def _summaries(
    archive: Archive, index: ArchiveIndex, numbers: Iterable[int]
) -> Iterator[ShardSummary]:
    """The summaries of shards, without those that are gone or damaged."""

    def summary_of(number: int) -> ShardSummary | None:
        summary = index.shards[number]
        try:
            data = archive.shard_bytes(summary)
            return ShardSummary.of(archive.parse_shard(summary, data), data)
        except IntegrityError as error:
            _log.warning("%s", error)
            return None

    named = filter(index.shards.__contains__, numbers)
    return filter(None, asked_together(archive.store, summary_of, named))


def _conditions(archive: Archive) -> bytes:
    days = day_conditions(archive.index(), sound_revisions(archive) or ())
    return conditions_json(archive.chain_id, days)


def _latest(archive: Archive) -> bytes:
    """`latest.json`: a few hundred bytes to poll, how far an archive goes and where things are."""
    data, index = archive.read(INDEX) or b"", archive.index()
    runs = index.ids.runs
    about_index = {"path": INDEX, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    names = {"conditions": CONDITIONS, "page": PAGE, "schema": SCHEMA, "sums": SUMS}
    return written(
        {
            **extent_json(index, completeness(index.tables)),
            "newest": range_json(runs[-1].last) if runs else None,
            "index": about_index,
            "documents": names,
        }
    )


def _sums(archive: Archive, old: bytes | None) -> bytes:
    check_present(archive, old)
    contents = ((name, archive.read(name)) for name in LISTED if name != PUBLIC_DATABASE)
    there = {name: data for name, data in contents if data is not None}
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in there.items()}
    if PUBLIC_SQL in there:
        try:
            _, database_sha256 = unsealed_sql(there[PUBLIC_SQL], archive.place(PUBLIC_SQL))
            hashes[PUBLIC_DATABASE] = database_sha256
        except IntegrityError as error:
            _log.warning("%s; who publishes to the lake makes it again", error)
    return sums_text(archive.index(), hashes)


def _chain_page(archive: Archive) -> bytes:
    names = [f"{name}{ENDING}" for name in SIGNATURES]
    is_signed = archive.signer is not None or archive.read(names[0]) is not None
    signatures = names if is_signed else []
    replaced, address = sound_revisions(archive), sound_address(archive)
    return chain_page(archive.index(), replaced, address, signatures)


def _chains(archive: Archive, old: bytes | None) -> bytes:
    try:
        chain_ids = set(parse_chains(old, archive.store)) if old else _listed(archive.store)
    except IntegrityError as error:
        _log.warning("%s; it is made again from what lies there", error)
        chain_ids = _listed(archive.store)
    rows = [
        {"chain_id": chain, "index": f"{chain}/{INDEX}"}
        for chain in sorted({archive.chain_id, *chain_ids})
    ]
    return written({"format": FORMAT, "chains": rows})


def _listed(store: Store) -> set[str]:
    """The chains whose index lies in the store: reads the names of all objects."""
    keys = (info.key.split("/") for info in store.list())
    return {key[0] for key in keys if key[1:] == [INDEX]}


def _indexes(store: Store) -> Iterator[ArchiveIndex]:
    for chain in chains(store):
        try:
            yield Archive(store, chain).index()
        except IntegrityError as error:
            _log.warning("%s; the page of all chains leaves it out", error)
