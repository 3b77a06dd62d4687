"""The archive's page: a chain's page as it is published, a download form, and what is loaded.

It works without scripts; `static/archive.js` only saves the reader some typing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from urllib.parse import quote

from exporters.archive.archive import Archive, chains
from exporters.archive.index import ArchiveIndex
from exporters.archive.page import chain_values
from exporters.archive.revisions import Revision
from exporters.archive.sound_documents import sound_address, sound_index, sound_revisions
from exporters.archive.sums import completeness
from exporters.archive.templating import render
from transforms.block_range import BlockRange
from transforms.coverage import difference, union
from transforms.stores.store import Store
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.receipts import LoadedSegment

_SHOWN = 25
"""How many segments the page lists, and the form offers."""


@dataclass(frozen=True, slots=True)
class ArchiveView:
    """What a server has of a chain: published files, and loaded segments in ascending order.

    `replaced` is None where the list of revisions is damaged. `address` is where anybody reads the
    chain's folder, empty where nobody knows.
    """

    index: ArchiveIndex
    replaced: Sequence[Revision] | None = ()
    segments: Sequence[LoadedSegment] = ()
    address: str = ""


def view_archive(catalog: Catalog | None, store: Store, own: str = "") -> ArchiveView:
    """The chain that is loaded, or else the first one that is published.

    `own` is where the archive is served, for a chain that is loaded and has no other address.
    """
    chain_id = catalog.snapshot.chain_id if catalog else next(iter(chains(store)), "")
    segments = catalog.segments() if catalog else []
    if not chain_id:
        return ArchiveView(ArchiveIndex(""))
    archive = Archive(store, chain_id)
    address = sound_address(archive) or (f"{own}/{chain_id}" if own else "")
    return ArchiveView(sound_index(archive), sound_revisions(archive), segments, address)


def archive_page(view: ArchiveView, base: str) -> bytes:
    """The page as UTF-8; `base` leads from where it is shown to the server's root."""
    tables = view.index.tables
    newest = view.segments[::-1]
    loaded_runs = union(segment.blocks for segment in newest)
    runs = union((*loaded_runs, *(run for sums in tables.values() for run in sums.covered)))
    unpublished = difference(loaded_runs, completeness(tables).complete)
    pending = (s for s in newest if any(s.blocks.overlaps(run) for run in unpublished))
    return render(
        "api.http",
        "archive.html",
        **chain_values(view.index, view.replaced, view.address, loaded_runs),
        base=base,
        other_links=(),
        here=f"{base}/archive/{quote(view.index.chain_id)}/",
        segments=view.segments,
        loaded=loaded_runs,
        unpublished=unpublished,
        absent=difference(runs and (BlockRange(runs[0].first, runs[-1].last),), runs),
        choices=[segment.blocks for segment in newest[:_SHOWN]],
        shown=list(islice(pending, _SHOWN)) if unpublished else [],
    )
