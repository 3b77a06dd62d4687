"""What archive and lake have of segments, and whether that is what is loaded."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from exporters.archive.archive import CHAINS, Archive, chains
from exporters.archive.entries import Entry
from exporters.archive.hash_lists import SUMS, parse_sums
from exporters.archive.index import ArchiveIndex
from exporters.archive.lake_place import MANIFESTS, STATE_MANIFEST
from exporters.archive.shards import shard_blocks, shard_number
from exporters.archive.sound_documents import sound_index
from exporters.lake.lake_files import Lake
from exporters.lake.publication.state_tables import is_state_due
from pipelines.site.site import Site, at_one_look
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.stores.store import asked_together
from transforms.tables.registry import HISTORY_TABLES
from transforms.verifying.proofs import Proof
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.receipts import Receipt


def published_parts(
    archive: Archive,
    segments: Collection[BlockRange],
    tables: Collection[str],
    index: ArchiveIndex | None = None,
) -> dict[tuple[str, BlockRange], Entry]:
    """Return the entries of single-segment ZIPs of these segments, by table and blocks.

    Reads the index, unless it is given, and the segments' shards. A damaged one has no entries:
    publishing makes it again.
    """
    index = index or sound_index(archive)
    segment_set, parts = frozenset(segments), {}
    for number in sorted(set(map(shard_number, segment_set))):
        with suppress(IntegrityError):
            for entry in archive.shard(number, index).entries:
                if entry.blocks in segment_set and entry.table in tables:
                    parts[entry.table, entry.blocks] = entry
    return parts


def is_held(receipt: Receipt, entries: Mapping[tuple[str, BlockRange], Entry]) -> bool:
    """Whether the archive's `entries` have a receipt's very CSV."""
    entry = entries.get((receipt.table, receipt.blocks))
    return entry is not None and entry.csv.sha256 == receipt.sha256


def corrected_segments(site: Site, catalog: Catalog, index: ArchiveIndex) -> list[BlockRange]:
    """Return the loaded segments of which the archive has other text, ascending.

    A shard without such segments is not read again until it or the warehouse changes.
    """
    archive, corrected = site.archive(catalog.snapshot.chain_id), set[BlockRange]()
    proofs = catalog.files.proofs
    for number, shard in index.shards.items():
        blocks = shard_blocks(number)
        manifests = " ".join(volume.key for volume in catalog.volumes_over(blocks)).encode()
        place = f"texts of {archive.place(shard.stem)}"
        proof = Proof(place, hashlib.sha256(manifests).hexdigest(), shard.sha256)
        if not manifests or proofs.find(proof.place, proof.state, proof.recorded):
            continue
        receipts = catalog.receipts(blocks)
        entries = published_parts(archive, {r.blocks for r in receipts}, HISTORY_TABLES, index)
        published = (r for r in receipts if (r.table, r.blocks) in entries)
        others = {receipt.blocks for receipt in published if not is_held(receipt, entries)}
        corrected |= others
        if not others:
            proofs.keep(proof)
    return sorted(corrected)


def changed_documents(site: Site, archive: Archive) -> list[str]:
    """Return the documents that are missing, or that differ from `SHA256SUMS`.

    A document is not read again until it or its recorded hash changes.
    """
    sums, store = archive.read(SUMS), archive.store
    hashes = parse_sums(sums or b"")
    infos = {info.key: info for info in store.list(archive.key("index/"))}
    others = [key for key in map(archive.key, hashes) if key not in infos]
    infos |= {info.key: info for info in asked_together(store, store.head, others) if info}
    proofs = site.warehouse.catalog().files.proofs
    changed = [] if sums else [SUMS]
    for path, sha256 in hashes.items():
        info = infos.get(archive.key(path))
        proof = Proof(archive.place(path), info.version if info else "", sha256)
        if info and proofs.find(proof.place, proof.state, sha256):
            continue
        if hashlib.sha256(archive.read(path) or b"").hexdigest() == sha256:
            proofs.keep(proof)
        else:
            changed.append(path)
    with suppress(IntegrityError):
        if archive.chain_id in chains(store):
            return changed
    return [*changed, CHAINS]


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """One table's single-segment ZIPs: their number, rows and bytes, and the newest of them."""

    table: str
    zips: int
    rows: int
    bytes: int
    newest: Entry


def published_tables(site: Site, segments: Collection[BlockRange]) -> list[PublishedTable]:
    """What the archive has of these segments, by table; reads their shards once."""
    if not segments:
        return []
    archive = site.archive(site.loaded_catalog().snapshot.chain_id)
    entries: defaultdict[str, list[Entry]] = defaultdict(list)
    for (table, _), entry in published_parts(archive, segments, HISTORY_TABLES).items():
        entries[table].append(entry)
    return [
        PublishedTable(
            table, len(all_), sum(e.rows for e in all_), sum(e.bytes for e in all_), all_[-1]
        )
        for table, all_ in sorted(entries.items())
    ]


def site_lake(site: Site) -> Lake:
    """The lake of the chain that is loaded."""
    archive = site.archive(site.loaded_catalog().snapshot.chain_id)
    return Lake(archive, site.warehouse.cache / "lake")


@at_one_look
def lacking_segments(site: Site) -> list[BlockRange]:
    """The loaded segments of which the lake has no manifest, ascending, by their log alone.

    With them comes the newest one of whose current state the lake is to have a newer copy. Raises
    `IntegrityError` where that cannot be said.
    """
    lake, catalog = site_lake(site), site.loaded_catalog()
    manifests, state_manifest = map(lake.table, (MANIFESTS, STATE_MANIFEST))
    with ThreadPoolExecutor(1) as pool:  # where a request takes long, both are asked at a time
        looked = pool.submit(manifests.look)
        state_manifest.look()
        looked.result()
    states, lacking = catalog.snapshot.states, manifests.version().lacks(catalog.blocks)
    is_due = not lacking and is_state_due(lake, states, site.settings.state_seconds)
    return [states[-1].blocks] if is_due else lacking


def sweep(site: Site) -> dict[str, str]:
    """Remove what no version of the last week names; see `Lake.sweep`."""
    return site_lake(site).sweep()
