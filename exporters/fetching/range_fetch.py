"""One table over a range of blocks, fetched: published ZIPs, joined into one.

What is fetched stays below the folder as it lies in the archive, so nothing is fetched twice. Of an
archive in a local folder nothing is copied: its ZIPs are read where they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.archive.hash_lists import put_hash_file
from exporters.exports.copies import DamagedCopyError
from exporters.exports.published_zips import PublishedCopy, published_copy, published_parts
from exporters.exports.splice import layout_spans, write_hashed
from exporters.fetching.fetch_folder import JOBS, FetchFolder, Progress, no_progress
from exporters.fetching.range_plan import MemberChoice, RangePlan, choose, plan_range
from exporters.fetching.zip_downloads import Downloads
from exporters.zips.layout import Layout
from exporters.zips.parts import PartColumns
from transforms.files import file_version
from transforms.verifying.proofs import Proof


@dataclass(frozen=True, slots=True)
class FetchedZip:
    """A published ZIP that was taken: `fetched` are the bytes that came now, 0 if it was there."""

    entry: Entry
    fetched: int


@dataclass(frozen=True, slots=True)
class RangeFetch:
    """What came of it: the file with its hash, its plan and layout, and the ZIPs it is made of."""

    path: Path
    sha256: str
    plan: RangePlan
    layout: Layout
    zips: tuple[FetchedZip, ...]
    was_there: bool
    seconds: float

    @property
    def fetched_bytes(self) -> int:
        """How many bytes came from the archive now."""
        return sum(item.fetched for item in self.zips)


def fetch_range(
    source: Archive,
    table: str,
    first: int | None,
    last: int | None,
    out: Path,
    *,
    jobs: int = JOBS,
    progress: Progress = no_progress,
    warn: Callable[[str], object] = lambda _text: None,
) -> RangeFetch:
    """Fetch a table over blocks `first` to `last` (None: as far as it goes) into the folder `out`.

    The ZIP has the name and the bytes that `strata export` gives. Raises `RangeError` where the
    range is not held or not aligned, `IntegrityError` where the archive has a ZIP of it nowhere
    sound, `BusyError` where another process fetches into the folder; and errors of the machine.
    """
    plan = plan_range(source, table, first, last)
    with FetchFolder(out).opened() as folder:
        return _RangeFetcher(source, plan, folder, jobs, progress, warn).run()


@dataclass(slots=True)
class _RangeFetcher:
    source: Archive
    plan: RangePlan
    folder: FetchFolder
    jobs: int
    progress: Progress
    warn: Callable[[str], object]
    fetched: dict[str, int] = field(default_factory=dict)
    damages: dict[str, DamagedCopyError] = field(default_factory=dict)

    def run(self) -> RangeFetch:
        """See `fetch_range`."""
        begun = time.monotonic()
        while True:
            chosen = choose(self.plan, self._is_there, self.damages)
            if chosen is None:
                raise next(iter(self.damages.values()))
            entries = {choice.entry.path: choice.entry for span in chosen for choice in span}
            was_there = self._finished(chosen)
            if was_there is not None or self._bring(list(entries.values())):
                break
        zips = tuple(
            FetchedZip(entry, self.fetched.get(path, 0)) for path, entry in entries.items()
        )
        layout = self._layout(chosen)
        path = self.folder.path / layout.name
        sha256 = was_there or self._write(layout, path)
        seconds = time.monotonic() - begun
        return RangeFetch(path, sha256, self.plan, layout, zips, was_there is not None, seconds)

    @property
    def _holder(self) -> Archive:
        """The archive whose files are read: the source where it is local, else what was fetched."""
        if self.source.store.path("index.html") is not None:
            return self.source
        return Archive(self.folder.store, self.source.chain_id)

    def _copy(self, entry: Entry) -> PublishedCopy:
        return published_copy(self._holder, entry, self.folder.proofs)

    def _is_there(self, entry: Entry) -> bool:
        """Whether a ZIP is there, by its size: whether it is sound is found when it is taken."""
        info = self._holder.store.head(self._holder.key(entry.path))
        return info is not None and info.size == entry.bytes

    def _finished(self, chosen: Sequence[Sequence[MemberChoice]]) -> str | None:
        """The hash of the file, where it is there already and was proven."""
        layout = self._layout(chosen)
        path = self.folder.path / layout.name
        if not path.is_file():
            return None
        proof = self.folder.proofs.find(str(path), file_version(path.stat()), layout.etag)
        return proof.digest if proof else None

    def _bring(self, entries: Sequence[Entry]) -> bool:
        """Have all of these ZIPs there, proven; whether none of them is damaged in the archive."""
        lacking = [entry for entry in entries if not self._is_proven(entry)]
        if self._holder is self.source or not lacking:
            return not self.damages.keys() & {entry.path for entry in entries}
        downloads = Downloads(self.source, self.folder.scratch, lambda _bytes: None)
        total = sum(entry.bytes - downloads.held(entry) for entry in lacking)
        with self.progress("fetching", total) as advance:
            downloads.advance = advance
            sound = downloads.on_each(
                lambda entry: self._download(downloads, entry), lacking, self.jobs
            )
        return all(sound)

    def _is_proven(self, entry: Entry) -> bool:
        try:
            self._copy(entry).prove()
        except DamagedCopyError as damage:
            if self._holder.store is self.source.store:
                self._note(entry, damage)
            return False
        return True

    def _download(self, downloads: Downloads, entry: Entry) -> bool:
        before = downloads.held(entry)
        try:
            self.folder.take(downloads, self.source.chain_id, entry)
        except DamagedCopyError as damage:
            self._note(entry, damage)
            return False
        put_hash_file(self._holder, entry)
        self.fetched[entry.path] = entry.bytes - before
        return True

    def _note(self, entry: Entry, damage: DamagedCopyError) -> None:
        self.damages[entry.path] = damage
        self.warn(f"{damage}. The rows are taken from another ZIP, if there is one")

    def _layout(self, chosen: Sequence[Sequence[MemberChoice]]) -> Layout:
        parts = (
            PartColumns.of(published_parts(e.entry, self._copy(e.entry))[e.number] for e in span)
            for span in chosen
        )
        return layout_spans(self.plan.export, parts, self.plan.style)

    def _write(self, layout: Layout, path: Path) -> str:
        """Write the file and its hash file; returns the hash, which is remembered."""
        with self.progress("joining", layout.size) as advance:
            sha256 = write_hashed(layout, path, advance, scratch=self.folder.scratch)
        state = file_version(path.stat())
        self.folder.proofs.keep(Proof(str(path), state, layout.etag, sha256))
        return sha256
