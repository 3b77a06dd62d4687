"""What archive and lake have of segments, and whether that is what is loaded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.archive.lake_place import MANIFESTS
from exporters.archive.shards import shard_number
from exporters.lake.lake_files import Lake
from exporters.lake.publication.lake_sweep import sweep_lake
from exporters.lake.state_files import are_states_due
from exporters.lake.tables import LakeReport, LakeTable
from pipelines.site.site import Site, at_one_look
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.warehouse.manifests.receipts import Receipt


def published_entries(
    archive: Archive, segments: Sequence[BlockRange], tables: Collection[str]
) -> Iterator[Entry]:
    """What the archive has of exactly these segments: single-segment ZIPs, by block.

    Reads their shards only; one that is damaged has nothing, and publishing makes it again.
    """
    segment_set = frozenset(segments)
    for number in sorted(set(map(shard_number, segment_set))):
        try:
            entries = archive.shard(number).entries
        except IntegrityError:
            continue
        for entry in entries:
            if entry.blocks in segment_set and entry.table in tables and not entry.is_bundle:
                yield entry


def published_parts(
    archive: Archive, segments: Sequence[BlockRange], tables: Collection[str]
) -> dict[tuple[str, BlockRange], Entry]:
    """The same by table and blocks."""
    entries = published_entries(archive, segments, tables)
    return {(entry.table, entry.blocks): entry for entry in entries}


def is_held(receipt: Receipt, entries: Mapping[tuple[str, BlockRange], Entry]) -> bool:
    """Whether the archive's `entries` have a receipt's very CSV."""
    entry = entries.get((receipt.table, receipt.blocks))
    return entry is not None and entry.members[0].sha256 == receipt.sha256


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
    archive = site.archive(site.loaded_catalog().chain_id)
    tables: dict[str, PublishedTable] = {}
    for number in sorted(set(map(shard_number, segments))):
        for entry in archive.shard(number).entries:
            if not entry.is_bundle and entry.blocks in segments:
                tables[entry.table] = _counted(tables.get(entry.table), entry)
    return [tables[table] for table in sorted(tables)]


def _counted(before: PublishedTable | None, entry: Entry) -> PublishedTable:
    zips, rows, size = (before.zips, before.rows, before.bytes) if before else (0, 0, 0)
    return PublishedTable(entry.table, zips + 1, rows + entry.rows, size + entry.bytes, entry)


def site_lake(site: Site) -> Lake:
    """The lake of the chain that is loaded."""
    archive = site.archive(site.loaded_catalog().chain_id)
    return Lake(archive, site.settings.memory_mb, site.warehouse.cache / "lake")


@at_one_look
def lacking_segments(site: Site) -> list[BlockRange]:
    """The loaded segments of which the lake has no manifest, ascending, by their log alone.

    With them comes the newest one of whose current state the lake is to have a newer copy. Raises
    `IntegrityError` where that cannot be said.
    """
    lake, catalog = site_lake(site), site.loaded_catalog()
    with ThreadPoolExecutor(1) as pool:  # where a request takes long, both are asked at a time
        expected = pool.submit(LakeTable(lake, MANIFESTS).expected)
        states = catalog.intact().states()
        is_due = are_states_due(lake.archive, states)
        version = expected.result()
    lacking = version.lacks(catalog.blocks) if version else [*catalog.blocks]
    return lacking or ([states[-1].blocks] if is_due else [])


def sweep(site: Site) -> LakeReport:
    """Remove what no version of the last week names; see `sweep_lake`."""
    return sweep_lake(site_lake(site))
