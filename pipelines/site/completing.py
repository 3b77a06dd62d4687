"""Looking whether an archive has all that was published; what is missing is made again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from exporters.archive.archive import Archive
from exporters.archive.sound_documents import is_complete, sound_index
from exporters.publishing.comparing import Progress, compare
from pipelines.site.publication_state import corrected_segments
from pipelines.site.site import Site
from transforms.block_range import BlockRange
from transforms.tables.registry import HISTORY_TABLES

if TYPE_CHECKING:
    from exporters.publishing.publication import Published


@dataclass(frozen=True, slots=True)
class Completion:
    """What was looked at and what had to be made again.

    `looked_at` counts the published ZIPs that were looked for, `made` the ZIPs, hash files, shards
    and other documents that were missing. `failed` is what could not be made again, or has another
    size than its entry says; `unpublished` are the other loaded segments that have not a ZIP of
    each table with the loaded text, ascending.
    """

    looked_at: int = 0
    made: int = 0
    failed: tuple[Published, ...] = ()
    unpublished: tuple[BlockRange, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """Whether all was there that was ever published."""
        return not self.made and not self.failed


def complete_archive(
    site: Site,
    archive: Archive,
    progress: Progress = lambda _what, _completed, _total: None,
    *,
    contents: bool = True,
) -> Completion:
    """Look at what a chain's archive has, by a listing, and make again what is missing.

    Documents that follow from others are compared byte by byte with what they should be, or where
    `contents` is not asked for, only those of shards that changed; of the others it is asked
    whether they are there. What the bytes of a ZIP are is not looked at: that is for verifying.
    Errors of the machine end it as they are: run it again.
    """
    differences = compare(archive, progress)
    counts, tables, catalog = differences.tables, len(HISTORY_TABLES), site.loaded_catalog()
    corrected = {*corrected_segments(site, catalog, sound_index(archive))}
    unpublished = tuple(b for b in catalog.blocks if counts[b] < tables or b in corrected)
    if not differences.shards:
        return Completion(unpublished=unpublished)
    if differences.is_nothing and not contents and is_complete(archive):
        return Completion(differences.zips, unpublished=unpublished)
    # What publishes takes its time to import, which whoever lacks nothing need not pay.
    from pipelines.site.making_again import make_again

    return make_again(site, archive, differences, unpublished, contents=contents)
