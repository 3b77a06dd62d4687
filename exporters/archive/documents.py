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
from exporters.archive.index import ArchiveIndex, extent_json, index_bytes
from exporters.archive.json_text import FORMAT, written
from exporters.archive.lake_place import LAKE, LOG, MANIFESTS
from exporters.archive.page import chain_page, home_page, shard_page
from exporters.archive.public_sql import PUBLIC_DATABASE, PUBLIC_SQL, unsealed_sql
from exporters.archive.revisions import REVISIONS, check_present
from exporters.archive.schema_documents import schema_json, schema_page
from exporters.archive.shards import hashes_path, shard_path
from exporters.archive.sound_documents import (
    CONDITIONS,
    HOME,
    INDEX,
    LATEST,
    PAGE,
    SCHEMA,
    SCHEMA_PAGE,
    shard_summaries,
    sound_address,
    sound_revisions,
    stored_shards,
)
from exporters.archive.sums import completeness
from transforms.collector import collector_paused
from transforms.errors import IntegrityError
from transforms.stores.store import Store

if TYPE_CHECKING:
    from exporters.signing_keys import Signer

_HTML, _JSON, _TEXT = "text/html; charset=utf-8", "application/json", "text/plain; charset=utf-8"
_log = logging.getLogger(__name__)


class Wave(IntEnum):
    """When a document is written: beside those of its wave, after all of the waves before."""

    SHARDS = 0
    INDEX = 1
    PAGES = 2
    LISTS = 3
    SIGNATURES = 4


@dataclass(frozen=True, slots=True)
class ArchiveDocument:
    """A small object that follows from others; `content` gets the bytes it has now, if any."""

    key: str
    content_type: str
    content: Callable[[bytes | None], bytes]
    wave: Wave = Wave.PAGES


PUBLIC_SQL_READERS = (PAGE, SUMS, *(f"{name}{ENDING}" for name in SIGNATURES))
"""What follows from `strata.sql`: the page has its address, the list its hash."""


def refresh(archive: Archive, numbers: Iterable[int], paths: Collection[str] | None = None) -> int:
    """Bring everything up to date that follows from these shards; return how many were written.

    With `paths`, only these documents of the chain.

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
            for document in documents(reading, shards)
            if paths is None or document.key in map(archive.key, paths)
        ]
        _read_first(reading, store, pending, shards)
        changed = [d for d in pending if store.change(d.key, d.content)]
        for wave in Wave:
            types = {d.key: d.content_type for d in changed if d.wave is wave}
            store.put(types)
            written.extend(types)

    won_race(write, archive.place(""))
    return len(written)


def _read_first(
    archive: Archive,
    store: DocumentStore,
    pending: Collection[ArchiveDocument],
    shards: Collection[int],
) -> None:
    """Read documents that may be written, then the index, then what it and they follow from."""
    index = archive.key(INDEX)
    store.read_first(document.key for document in pending if document.key != index)
    store.read_first([index])
    others = [REVISIONS, PUBLIC_SQL, *map(shard_path, shards)]
    store.read_first(map(archive.key, others))


def documents(archive: Archive, numbers: Iterable[int]) -> Iterator[ArchiveDocument]:
    """The documents that follow from these shards, each after those that it follows from."""
    shards = sorted(set(numbers))
    for number in shards:
        yield from shard_documents(archive, number)
    yield from chain_documents(archive, shards)


def shard_documents(archive: Archive, number: int) -> Iterator[ArchiveDocument]:
    """The documents that follow from one shard alone."""
    hashes, page = hashes_path(number), shard_path(number).replace(".json", ".html")
    wave = Wave.SHARDS
    yield ArchiveDocument(
        archive.key(hashes), _TEXT, lambda _: archive.shard(number).hashes(), wave
    )
    yield ArchiveDocument(
        archive.key(page), _HTML, lambda _: shard_page(archive.shard(number)), wave
    )


def chain_documents(archive: Archive, shards: Collection[int]) -> Iterator[ArchiveDocument]:
    """The documents that follow from these shards together, and from the others.

    Of those the index has what it had.
    """
    index = partial(_index, archive, shards)
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


def _index(archive: Archive, numbers: Iterable[int], old: bytes | None) -> bytes:
    try:
        index = known_index(old, archive.place(INDEX)) if old else None
    except IntegrityError as error:
        _log.warning("%s; it is made again from the shards", error)
        index = None
    if index is None or index.chain_id != archive.chain_id:
        # The first one, or one that was lost: the shards are the truth.
        index, numbers = ArchiveIndex(archive.chain_id), stored_shards(archive)
    index = index.including(shard_summaries(archive, numbers))
    # Where anything was ever published to the lake, its manifests have a log.
    log = archive.key(f"{LAKE}/{MANIFESTS}/{LOG}/")
    has_lake = next(iter(archive.store.list(log)), None) is not None
    warehouses = archive.warehouses or index.warehouses
    index = replace(index, has_lake=has_lake, warehouses=warehouses).recording(archive.seen)
    data = index_bytes(index)
    keep_index(data, archive.place(INDEX), index)
    return data


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
    names = (INDEX, SCHEMA, CONDITIONS, LATEST, REVISIONS, PUBLIC_SQL)
    contents = ((name, archive.read(name)) for name in names)
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
    return chain_page(archive.index(), sound_revisions(archive), sound_address(archive))


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
