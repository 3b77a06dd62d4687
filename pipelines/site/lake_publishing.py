"""Publishing loaded segments to the lake, whoever asked for it: Dagster or the command line."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from threading import Lock

from exporters.archive.documents import PUBLIC_SQL_READERS, refresh
from exporters.archive.lake_place import MANIFESTS
from exporters.archive.sound_documents import sound_index
from exporters.archive.sums import completeness
from exporters.lake.lake_files import Lake
from exporters.lake.publication.history_tables import HistoryTables
from exporters.lake.publication.public_documents import PublicDocuments
from exporters.lake.publication.state_tables import is_state_due, publish_state
from pipelines.site.publication_state import (
    is_held,
    lacking_segments,
    published_parts,
    site_lake,
    sweep,
)
from pipelines.site.site import Site, at_one_look, no_progress
from transforms.block_range import BlockRange
from transforms.coverage import inside
from transforms.errors import IntegrityError
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.warehouse import Progress


@at_one_look
def publish_to_lake(
    site: Site, segments: Sequence[BlockRange], advance: Progress = no_progress
) -> dict[str, str]:
    """Put into the lake what it lacks of what is published, and the newest current state.

    A volume is added once all its segments are published as they are loaded. The current state is
    put there as often as the setting `state_seconds` allows. `advance` is called with the bytes of
    files that were put there. Returns why tables stay as they are, and which of these segments
    (loaded, ascending) are not published so.
    """
    return _publish(site, site_lake(site), segments, advance, is_spared=True)


def _publish(
    site: Site, lake: Lake, segments: Sequence[BlockRange], advance: Progress, *, is_spared: bool
) -> dict[str, str]:
    unpublished = cache(partial(_unpublished, site, lake))
    problems = sorted(unpublished(tuple(segments)).items())
    refused = {f"segment {blocks}": "; ".join(why) for blocks, why in problems}
    catalog, turn = site.loaded_catalog(), Lock()

    @cache
    def is_published(blocks: BlockRange) -> bool:
        return not unpublished(tuple(segment.blocks for segment in catalog.segments(blocks)))

    def published(volume: Volume) -> bool:
        with turn:  # tables are asked for side by side, about the same volumes
            return is_published(volume.blocks)

    refused |= HistoryTables(lake, catalog, published, site.scratch(), advance).follow()
    states = catalog.snapshot.states
    is_due = not is_spared or is_state_due(lake, states, site.settings.state_seconds)
    if states and is_due:
        refused |= publish_state(lake, site.warehouse.backing, states[-1], site.scratch())
    name_lake(site, lake)
    return refused


def _unpublished(
    site: Site, lake: Lake, segments: tuple[BlockRange, ...]
) -> dict[BlockRange, tuple[str, ...]]:
    """The segments that the archive has not, or has otherwise: the lake has what the ZIPs have."""
    entries = published_parts(lake.archive, segments, HISTORY_TABLES)
    problems: dict[BlockRange, tuple[str, ...]] = {}
    for receipt in site.warehouse.receipts(segments):
        if receipt.table in HISTORY_TABLES and not is_held(receipt, entries):
            what = f"the archive has not this text of {receipt.table}: run strata publish first"
            problems[receipt.blocks] = (*problems.get(receipt.blocks, ()), what)
    return problems


def name_lake(site: Site, lake: Lake) -> None:
    """Let the archive's documents say what the lake has.

    Index and page name it, if they do not yet; `strata.sql` and `strata.duckdb` have its files,
    where the archive's public address is known (see `PublicDocuments.write`).
    """
    is_written = False
    if site.settings.public_url:
        catalog = site.loaded_catalog()
        public = PublicDocuments(lake, site.settings.public_url, catalog, site.scratch())
        is_written = public.write()
    if _is_new(lake) and not sound_index(lake.archive).has_lake:
        refresh(lake.archive, ())
    elif is_written:
        refresh(lake.archive, (), PUBLIC_SQL_READERS)


def _is_new(lake: Lake) -> bool:
    """Whether the archive's documents may not know the lake: who publishes ZIPs looks for it."""
    try:
        manifests = lake.table(MANIFESTS).version()
    except IntegrityError:  # the report says so
        return True
    return manifests.number <= 0


@at_one_look
def publish_missing(site: Site, advance: Progress = no_progress) -> dict[str, str]:
    """Put into the lake whatever it lacks of what is published, and remove what it needs no more.

    `advance` is called with the bytes of the files that were published. Returns what
    `publish_to_lake` does.
    """
    lake = site_lake(site)
    published = completeness(sound_index(lake.archive).tables).complete
    doubtful = [*inside(_doubtful(site), published)]
    return _publish(site, lake, doubtful, advance, is_spared=False) | sweep(site)


def _doubtful(site: Site) -> Sequence[BlockRange]:
    """The segments of which there is no manifest; none where that cannot be said."""
    try:
        return lacking_segments(site)
    except IntegrityError:  # the report says so
        return ()
