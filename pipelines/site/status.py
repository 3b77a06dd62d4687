"""How far each segment has come: found, loaded, published. Nothing here knows Dagster.

This is read from the source, the warehouse and the archive themselves, never from what was once
requested, so a run that was killed, or done elsewhere, changes nothing about what is left to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from exporters.archive.coverage import Coverage
from exporters.archive.documents import sound_index
from exporters.archive.sums import Completeness, completeness
from pipelines.site.ids import IdReport, id_report
from pipelines.site.site import Site
from transforms.blocks import BlockRange
from transforms.segments.inventory import Inventory
from transforms.warehouse.receipts import LoadedSegment
from transforms.warehouse.surveying import Survey


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """How far the segments of one chain are; `published` are those with all tables archived.

    `complete_until` is the last block up to which the archive lacks nothing, from its first on.
    """

    survey: Survey
    loaded: Mapping[BlockRange, LoadedSegment]
    published: frozenset[BlockRange]
    complete_until: int | None

    @property
    def chain_id(self) -> str:
        """The chain; empty where nothing was found."""
        return self.survey.inventory.chain_id

    @property
    def refused(self) -> dict[str, str]:
        """The source's files that cannot be used, with the reason, by key."""
        refusals = (*self.survey.inventory.refused, *self.survey.known_bad)
        return {refusal.key: refusal.reason for refusal in sorted(refusals, key=lambda r: r.key)}

    @property
    def unpublished(self) -> tuple[BlockRange, ...]:
        """Loaded, and not in the archive with every table, ascending."""
        return tuple(blocks for blocks in self.loaded if blocks not in self.published)

    @property
    def to_do(self) -> tuple[BlockRange, ...]:
        """What a run should take: to be loaded, or only to be published, ascending."""
        pending = {file.blocks for file in self.survey.pending}
        return tuple(sorted({*pending, *self.unpublished}))

    @property
    def known(self) -> tuple[BlockRange, ...]:
        """Every segment that the source or the warehouse has, ascending: the partitions."""
        found = {file.blocks for file in self.survey.inventory.segments}
        return tuple(sorted({*found, *self.loaded}))

    @property
    def ids(self) -> IdReport:
        """How far the chain of ids of what is loaded is proven, and what contradicts it."""
        return id_report(self.loaded.values())

    @property
    def blocks_behind(self) -> int:
        """How many blocks the archive's newest segment is behind the newest one known."""
        newest = max((blocks.last for blocks in self.known), default=0)
        done = max((blocks.last for blocks in self.published), default=0)
        oldest = min((blocks.first for blocks in self.known), default=0)
        return max(newest - max(done, oldest - 1), 0)


EMPTY_STATUS = SiteStatus(Survey(Inventory("", (), ()), (), ()), {}, frozenset(), None)
"""That of a chain of which nothing is known."""


def site_status(site: Site) -> SiteStatus:
    """The status by source, warehouse and archive; reads listings and indexes only."""
    survey = site.warehouse.survey(site.source)
    catalog = site.warehouse.catalog()
    loaded = catalog.segments if catalog else {}
    extent = _extent(site, survey.inventory.chain_id)
    published = frozenset(_inside(loaded, extent.complete))
    return SiteStatus(survey, loaded, published, extent.until)


def unpublished_segments(site: Site) -> tuple[BlockRange, ...]:
    """What is loaded and not in the archive with every table, by its index alone, ascending."""
    catalog = site.loaded_catalog()
    published = frozenset(_inside(catalog.segments, _extent(site, catalog.chain_id).complete))
    return tuple(blocks for blocks in catalog.segments if blocks not in published)


def _extent(site: Site, chain_id: str) -> Completeness:
    return completeness(sound_index(site.archive(chain_id)).tables if chain_id else {})


def _inside(segments: Iterable[BlockRange], complete: Coverage) -> Iterator[BlockRange]:
    """Those of the ascending segments that lie whole inside a coverage."""
    runs = iter(complete)
    run = next(runs, None)
    for blocks in segments:
        while run is not None and run.last < blocks.last:
            run = next(runs, None)
        if run is not None and run.first <= blocks.first:
            yield blocks
