"""Reading everything again: the archive against itself, the warehouse, and each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from exporters.archive.archive import Archive
from exporters.verifying.verify import verify_archive
from pipelines.site.site import Site
from transforms.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Something that does not match: where, and what is wrong with it, as a sentence."""

    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


Progress = Callable[[str, int, int], None]
"""Called with what is being read, how many of it were, and how many there are."""


def verify_site(
    site: Site, progress: Progress = lambda _what, _done, _total: None
) -> Iterator[Mismatch]:
    """Yield what is wrong; nothing, if all is well. Memory stays bounded, everything is read."""
    yield from verify_warehouse(site, partial(progress, "tables"))
    catalog = site.warehouse.catalog()
    if catalog is not None:
        archive = site.archive(catalog.chain_id)
        if not _was_published_to(archive):
            return
        read = partial(progress, "ZIPs")
        for finding in verify_archive(archive, progress=read, scratch=site.scratch()):
            yield Mismatch(finding.place, f"{finding.problem.value}: {finding.what}")
        yield from verify_origin(site)


def verify_warehouse(site: Site, progress: Callable[[int, int], None]) -> Iterator[Mismatch]:
    """Tables that no longer render to the bytes that were loaded, and missing volumes."""
    for what, problem in site.warehouse.verify(progress):
        if problem:
            yield Mismatch(what, problem)


def verify_origin(site: Site) -> Iterator[Mismatch]:
    """ZIPs of the archive that hold other text than the warehouse proved to be the source's."""
    archive = site.archive(site.loaded_catalog().chain_id)
    for summary in archive.index().shards:
        entries = [e for e in archive.shard(summary.number).entries if not e.is_window]
        receipts = {
            (receipt.table, receipt.blocks): receipt
            for receipt in site.warehouse.receipts({entry.blocks for entry in entries})
        }
        for entry in entries:
            receipt = receipts.get((entry.table, entry.blocks))
            (member,) = entry.members
            if receipt and (member.sha256, member.rows) != (receipt.sha256, receipt.rows):
                yield Mismatch(
                    archive.place(entry.path),
                    f"its index entry has {member.rows} rows and SHA-256 {member.sha256}, the "
                    f"warehouse {receipt.rows} rows and {receipt.sha256}",
                )


def _was_published_to(archive: Archive) -> bool:
    if archive.read("index.json") is not None:
        return True
    try:
        return next(iter(archive.store.list(archive.key(""))), None) is not None
    except ConfigError:  # a folder that nobody has made yet
        return False
