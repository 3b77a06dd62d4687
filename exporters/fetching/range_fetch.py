"""One table over a range of blocks, fetched: published ZIPs, joined into one.

What is fetched stays below the folder as it lies in the archive, so nothing is fetched twice. Of an
archive in a local folder nothing is copied: its ZIPs are read where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.archive.hash_lists import put_hash_file
from exporters.exports.copies import DamagedCopyError
from exporters.exports.plan import ExportPlan
from exporters.exports.published_zips import published_copy, published_part
from exporters.exports.splice import layout_spans, write_hashed
from exporters.fetching.fetch_folder import JOBS, FetchFolder, Progress, no_progress
from exporters.fetching.range_plan import RangePlan, plan_range
from exporters.fetching.zip_downloads import Downloads
from exporters.zips.layout import Layout
from exporters.zips.parts import PartColumns
from transforms.block_range import BlockRange


@dataclass(frozen=True, slots=True)
class RangeFetch:
    """What came of it: the file with its hash, its plan and layout, and the ZIPs it is made of.

    `fetched_bytes` came from the archive now.
    """

    path: Path
    sha256: str
    plan: ExportPlan
    layout: Layout
    zips: Sequence[Entry]
    fetched_bytes: int


def fetch_range(
    source: Archive,
    table: str,
    blocks: BlockRange,
    out: Path,
    *,
    jobs: int = JOBS,
    progress: Progress = no_progress,
) -> RangeFetch:
    """Fetch a table over blocks into the folder `out`.

    The ZIP has the name and the bytes that `strata export` gives. Raises `RangeError` where the
    range is not held or not aligned, `DamagedCopyError` where a ZIP is not what the index says,
    `BusyError` where another process fetches into the folder; and errors of the machine.
    """
    plan = plan_range(source, table, blocks)
    with FetchFolder(out).opened() as folder:
        if source.store.path("index.html") is not None:
            holder, fetched = source, 0
        else:
            holder = Archive(folder.store, source.chain_id)
            fetched = _bring(source, holder, plan, folder, jobs, progress)
        layout = _layout(holder, plan, folder)
        path = out / layout.name
        with progress("joining", layout.size) as advance:
            sha256 = write_hashed(layout, path, advance, scratch=folder.scratch)
    return RangeFetch(path, sha256, plan.export, layout, plan.entries, fetched)


def _layout(holder: Archive, plan: RangePlan, folder: FetchFolder) -> Layout:
    """The ZIP to be; each copy in it is proven before its first byte is read."""
    parts = (
        PartColumns.of(
            published_part(entry, published_copy(holder, entry, folder.proofs))
            for entry in plan.entries
            if span.blocks.holds(entry.blocks)
        )
        for span in plan.export.spans
    )
    return layout_spans(plan.export, parts, plan.style)


def _bring(
    source: Archive,
    holder: Archive,
    plan: RangePlan,
    folder: FetchFolder,
    jobs: int,
    progress: Progress,
) -> int:
    """Have the ZIPs of a plan there, proven; how many bytes came."""
    lacking = [entry for entry in plan.entries if not _is_proven(holder, entry, folder)]
    downloads = Downloads(source, folder.scratch, lambda _bytes: None)
    total = sum(entry.bytes - downloads.held(entry) for entry in lacking)

    def take(entry: Entry) -> None:
        folder.take(downloads, source.chain_id, entry)
        put_hash_file(holder, entry)

    if lacking:
        with progress("fetching", total) as downloads.advance:
            downloads.on_each(take, lacking, jobs)
    return total


def _is_proven(holder: Archive, entry: Entry, folder: FetchFolder) -> bool:
    try:
        published_copy(holder, entry, folder.proofs).prove()
    except DamagedCopyError:
        return False
    return True
