"""How far each segment has come: found, loaded, published. Nothing here knows Dagster.

This is read from the source, the warehouse and the archive themselves, never from what was once
requested, so a run that was killed, or done elsewhere, changes nothing about what is left to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter

import pyarrow as pa

from exporters.archive.index import ArchiveIndex
from exporters.archive.sound_documents import sound_index
from exporters.archive.sums import completeness
from pipelines.site.publication_state import corrected_segments, lacking_segments
from pipelines.site.site import Site, at_one_look
from transforms.block_range import BlockRange
from transforms.collector import collector_paused
from transforms.coverage import difference, inside, union
from transforms.errors import ConflictError, IntegrityError
from transforms.segments.id_chain import IdChain, IdRun, id_chain, index_contradiction, other_id
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.files.unnamed_volumes import unnamed_volumes
from transforms.warehouse.manifests.manifest_rows import row_blocks
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.survey import Survey

# A key, as comparing two ranges calls Python: of 75,000 that takes a quarter of a second.
_FIRST = attrgetter("first", "last")


@dataclass(frozen=True)
class SiteStatus:
    """How far the segments of one chain are.

    `published` are those with all tables archived as they are loaded, `corrected` those that were
    published with other text. `complete_until` is the last block up to which the archive lacks
    nothing, from its first on, or the first that was loaded and lost; `not_in_lake` what is loaded
    and not whole in the lake, where there should be one, and `lake_problem` why that cannot be said
    (empty: it can); `unnamed` are whole volumes that the log does not name. All segments ascend.
    """

    survey: Survey
    catalog: Catalog
    published: tuple[BlockRange, ...]
    complete_until: int | None
    corrected: tuple[BlockRange, ...] = ()
    not_in_lake: tuple[BlockRange, ...] = ()
    lake_problem: str = ""
    unnamed: tuple[Volume, ...] = ()

    @property
    def chain_id(self) -> str:
        """The chain; empty where nothing was found."""
        return self.survey.inventory.chain_id

    @property
    def refused(self) -> dict[str, str]:
        """The source's files that cannot be used, with the reason, by key."""
        return self.survey.reasons

    @property
    def loaded(self) -> tuple[BlockRange, ...]:
        """What the warehouse has."""
        return self.catalog.blocks

    @property
    def lost(self) -> dict[str, str]:
        """Volumes with a file that is missing or not whole, and what the log has lost."""
        losses = {str(loss): str(loss.blocks) for loss in self.catalog.snapshot.losses}
        return {volume.key: str(volume.blocks) for volume in self.catalog.lost} | losses

    @cached_property
    def found(self) -> tuple[BlockRange, ...]:
        """Every segment that the source contains."""
        inventory = self.survey.inventory
        if len(inventory.loaded) == len(self.loaded):
            return self.known
        return tuple(file.blocks for file in inventory.segments)

    @cached_property
    def known(self) -> tuple[BlockRange, ...]:
        """Every segment that the source or the warehouse has: the partitions."""
        segments = {file.blocks for file in self.survey.inventory.fresh}
        fresh = [segment for segment in segments if not self.catalog.holds(segment)]
        return tuple(sorted((*self.loaded, *fresh), key=_FIRST)) if fresh else self.loaded

    @property
    def in_lake(self) -> tuple[BlockRange, ...]:
        """Loaded, and known to be whole in the lake, where there should be one."""
        return () if self.lake_problem else _without(self.loaded, self.not_in_lake)

    @property
    def unpublished(self) -> tuple[BlockRange, ...]:
        """Loaded, and not in the archive with every table and the same text."""
        return _without(self.loaded, self.published)

    @property
    def unarchived(self) -> frozenset[BlockRange]:
        """What is to be loaded, or to be published as ZIPs, which corrections cannot be."""
        pending = (file.blocks for file in self.survey.pending)
        return frozenset((*pending, *_without(self.unpublished, self.corrected)))

    @property
    def problems(self) -> Iterator[str]:
        """Sentences about what no run can do: lost rows, an empty source, a correction."""
        if self.catalog.lost_rows:
            yield f"rows are lost: {self.catalog.lost_rows}"
        if self.unnamed:
            count = len(self.unnamed)
            yield f"{count:,} whole volumes are not in the log: strata repair takes them in"
        if self.survey.source_problem:
            yield self.survey.source_problem
        for run in union(self.corrected)[:1]:
            command = f"strata publish --replace REASON --blocks {run}"
            count = len(self.corrected)
            yield f"{count:,} segments are published with other text than loaded: {command}"

    @property
    def to_do(self) -> tuple[BlockRange, ...]:
        """What a run should take: to be loaded, or only to be published."""
        return tuple(sorted({*self.unarchived, *self.not_in_lake}, key=_FIRST))

    @cached_property
    def ids(self) -> IdReport:
        """How far the chain of ids of what is loaded is proven, and what contradicts it."""
        return id_report(self.catalog.segment_rows())


def _without(
    segments: tuple[BlockRange, ...], others: tuple[BlockRange, ...]
) -> tuple[BlockRange, ...]:
    """Segments but for some of them; most often that is none, or all."""
    if not others or len(others) == len(segments):
        return () if others else segments
    left_out = frozenset(others)
    return tuple(blocks for blocks in segments if blocks not in left_out)


@at_one_look
@collector_paused()
def site_status(site: Site, listed_for: float = 0.0) -> SiteStatus:
    """The status by source, warehouse and archive; reads listings and indexes only.

    A listing of the source that this process took within `listed_for` seconds may be used again.
    """
    catalog = site.warehouse.catalog()
    chain_id = catalog.snapshot.chain_id
    # Where a request takes long, the places are asked at the same time.
    with ThreadPoolExecutor(2) as pool:
        index = pool.submit(_index, site, chain_id)
        has_lake = site.settings.lake and catalog.snapshot.volumes
        lake = pool.submit(_not_in_lake, site) if has_lake else None
        survey = site.warehouse.survey(site.source, listed_for)
    of_source = survey.inventory.chain_id
    own_index = index.result() if chain_id == of_source else _index(site, of_source)
    archived = completeness(own_index.tables)
    corrected = tuple(corrected_segments(site, catalog, own_index))
    complete = tuple(inside(catalog.blocks, archived.complete))
    published = _without(complete, tuple(inside(corrected, archived.complete)))
    lacking, problem = lake.result() if lake else ((), "")
    lost = union(loss.blocks for loss in catalog.losses if loss.kind == "history")
    is_cut = any(gap.last <= (archived.until or 0) for gap in difference(lost, archived.complete))
    until = None if is_cut else archived.until
    return SiteStatus(survey, catalog, published, until, corrected, lacking, problem)


def with_unnamed(site: Site, status: SiteStatus) -> SiteStatus:
    """The status with whole volumes that the log does not name, for which it lists manifests."""
    volumes = unnamed_volumes(site.warehouse.backing, status.catalog.snapshot)
    return replace(status, unnamed=tuple(volumes))


def _not_in_lake(site: Site) -> tuple[tuple[BlockRange, ...], str]:
    try:
        return tuple(lacking_segments(site)), ""
    except (ConflictError, IntegrityError) as error:
        return (), str(error)


def _index(site: Site, chain_id: str) -> ArchiveIndex:
    return sound_index(site.archive(chain_id)) if chain_id else ArchiveIndex("")


@dataclass(frozen=True, slots=True)
class IdReport:
    """The chain of ids, and where a source's `index.json` named other ids: (file, sentence)."""

    chain: IdChain
    index: tuple[tuple[str, str], ...]

    def findings(self) -> Iterator[tuple[str, str]]:
        """All that contradicts the chain: the segment's file or blocks, and what is wrong."""
        for contradiction in self.chain.contradictions:
            yield f"segment {contradiction.after.first}", str(contradiction)
        yield from self.index


def id_report(volumes: Iterable[pa.Table]) -> IdReport:
    """Hold the ids of the segments of volumes, ascending by block, against each other."""
    runs: list[IdRun] = []
    index: list[tuple[str, str]] = []
    for rows in volumes:
        runs += _id_runs(rows)
        claims = (rows[name].to_pylist() for name in ("source_key", "segment_id", "index_id"))
        index += [
            (key, index_contradiction(key, own, claim))
            for key, own, claim in zip(*claims, strict=True)
            if other_id(own, claim)
        ]
    return IdReport(id_chain(runs), tuple(index))


def _id_runs(rows: pa.Table) -> Iterable[IdRun]:
    """The segments of a volume, as one run where each names the one before it: it has no gap."""
    ids, before = rows["segment_id"].to_pylist(), rows["previous_id"].to_pylist()
    if before[1:] == ids[:-1]:
        first, last = row_blocks(rows.slice(0, 1))[0], row_blocks(rows.slice(len(ids) - 1))[0]
        return [IdRun(first, last, ids[-1], before[0])]
    blocks = row_blocks(rows)
    return map(IdRun, blocks, blocks, ids, before)
