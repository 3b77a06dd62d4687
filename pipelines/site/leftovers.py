"""What others left: publications that were killed, and staged ZIPs that another machine published.

Nothing else would ever finish the ones, or take the others away.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.archive.shards import shard_number
from exporters.archive.sound_documents import sound_index
from pipelines.site.journal import refresh_interrupted
from pipelines.site.publication_state import is_held
from pipelines.site.site import Site
from transforms.block_range import BlockRange
from transforms.errors import StrataError

_log = logging.getLogger(__name__)

_Part = tuple[str, BlockRange]


def finish_interrupted(site: Site) -> int:
    """Finish the publications that were killed half-way; returns how many there were."""
    catalog = site.warehouse.catalog()
    return refresh_interrupted(site.journal, site.archive(catalog.chain_id)) if catalog else 0


def remove_published_parts(site: Site) -> int:
    """Remove the staged ZIPs whose very CSV the archive has; returns how many.

    Costs what waits: its names, and the shards of the archive that it belongs to. An archive that
    cannot be read is named in a warning, and the parts stay until the next time.
    """
    try:
        return _remove(site)
    except (OSError, StrataError) as error:
        _log.warning("parts that another machine may have published stay for now: %s", error)
        return 0


def _remove(site: Site) -> int:
    catalog = site.warehouse.catalog()
    if catalog is None:
        return 0
    removed = 0
    archive = site.archive(catalog.chain_id)
    for number, parts in sorted(_by_shard(site, archive).items()):
        entries = _published(archive, number, parts)
        for receipt in site.warehouse.receipts({blocks for _, blocks in entries}):
            if is_held(receipt, entries):
                site.stage.remove(archive.chain_id, receipt.table, receipt.blocks)
                removed += 1
    return removed


def _by_shard(site: Site, archive: Archive) -> Mapping[int, Collection[_Part]]:
    """The parts that wait, by the shard of the index they belong to, of shards that are there."""
    parts: defaultdict[int, set[_Part]] = defaultdict(set)
    shards: frozenset[int] | None = None
    for table, blocks in site.stage.parts(archive.chain_id):
        if shards is None:  # where nothing waits the archive is not asked
            shards = frozenset(sound_index(archive).lines)
        if shard_number(blocks) in shards:
            parts[shard_number(blocks)].add((table, blocks))
    return parts


def _published(archive: Archive, number: int, parts: Collection[_Part]) -> Mapping[_Part, Entry]:
    entries = (entry for entry in archive.shard(number).entries if not entry.is_bundle)
    return {
        (entry.table, entry.blocks): entry
        for entry in entries
        if (entry.table, entry.blocks) in parts
    }
