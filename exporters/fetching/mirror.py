"""A whole archive, fetched: a mirror, which is an archive itself.

ZIPs and their hash files are fetched, the revisions, the shards of the index, and `strata.sql` with
its database are copied to the byte, and what follows from these (the index, pages, lists) is made
anew, as any publisher would: each shard after its ZIPs, everything else after the shards. So
whoever is killed leaves a smaller archive and never a wrong one. A ZIP that was replaced, which the
revisions say, takes the place of the old one just before its shard. A ZIP that the archive lacks,
or has damaged, is not named by the mirror's shard, which is another document then, until the
archive has it again. Before anything else the archive is held against what the mirror remembers of
it: one whose past changed is refused (`exporters.fetching.past`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from exporters.archive.archive import Archive, update
from exporters.archive.documents import refresh
from exporters.archive.entries import Entry
from exporters.archive.hash_lists import ENDING, SIGNATURES, put_hash_file
from exporters.archive.index import ArchiveIndex, ShardSummary
from exporters.archive.public_sql import PUBLIC_DATABASE, PUBLIC_SQL, PUBLIC_TYPES, unsealed_sql
from exporters.archive.revisions import REVISIONS, Revision, parse_revisions, revisions
from exporters.archive.shards import Shard, hashes_path, shard_path
from exporters.exports.copies import DamagedCopyError
from exporters.exports.published_zips import published_copy
from exporters.fetching.fetch_folder import JOBS, FetchFolder, Progress, no_progress
from exporters.fetching.past import checked_shards
from exporters.fetching.zip_downloads import Downloads
from transforms.errors import ConfigError, IntegrityError
from transforms.files import commit_file

_JSON, _TEXT = "application/json", "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class ReplacedZip:
    """A ZIP that was another one before, and why, by the revisions (None: they do not say)."""

    entry: Entry
    old_sha256: str
    event: Revision | None


@dataclass(slots=True)
class Mirrored:
    """What came of it: `fetched` are paths below the chain's folder.

    `lake_files` of the lake were fetched; `lake_refused` says which tables of it were not, and why.
    `failures` are the ZIPs that the archive lacks, or has other ones of than its index says: the
    mirror's index does not name them. Where one was to take the place of another, its shard stays
    as it was.
    """

    chain_id: str
    zips: int = 0
    bytes: int = 0
    fetched: list[str] = field(default_factory=list)
    fetched_bytes: int = 0
    replaced: list[ReplacedZip] = field(default_factory=list)
    failures: list[DamagedCopyError] = field(default_factory=list)
    lake_files: int = 0
    lake_bytes: int = 0
    lake_refused: list[str] = field(default_factory=list)
    documents: int = 0
    seconds: float = 0.0


Copy = Callable[[FetchFolder, Mirrored], None]
"""Copies what an archive has beside its ZIPs and documents into the folder of a mirror."""


def mirror(
    source: Archive,
    out: Path,
    *,
    jobs: int = JOBS,
    progress: Progress = no_progress,
    copy_lake: Copy | None = None,
) -> Mirrored:
    """Make the archive in the folder `out` what `source` is; run again, only what is new comes.

    `copy_lake` is called once its ZIPs and shards are there (`exporters.mirroring.lake_mirror`).
    Raises `PastChangedError` where what the mirror has is no longer there, without a revision;
    `IntegrityError` where a document of the archive is damaged, `BusyError` where another process
    fetches into the folder; and errors of the machine.
    """
    page = source.store.path("index.html")
    if page is not None and page.parent.resolve() == out.resolve():
        raise ConfigError(f"{out} is the archive itself: name another folder with --out")
    with FetchFolder(out).opened() as folder:
        return _Mirror(source, folder, jobs, progress, copy_lake, Mirrored(source.chain_id)).run()


# The index of a large archive takes half a second, and a first mirror writes a thousand shards.
_REFRESH_SHARE = 0.05
_MOST_FINISHED = 64


@dataclass(slots=True)
class _Mirror:
    source: Archive
    folder: FetchFolder
    jobs: int
    progress: Progress
    copy_lake: Copy | None
    result: Mirrored
    _finished: dict[int, bytes] = field(default_factory=dict)
    _refreshed: float = 0.0
    _refresh_seconds: float = 0.0

    def run(self) -> Mirrored:
        begun, result = time.monotonic(), self.result
        index = self.source.index()
        shard_bytes = checked_shards(self._local, self.source, index)
        before = self._own_index()
        total = sum(sums.bytes + sums.bundle_bytes for sums in index.tables.values())
        with self.progress("fetching", total) as advance:
            downloads = Downloads(self.source, self.folder.scratch, advance)
            for number in index.shards:
                self._shard(number, shard_bytes(number), before.shards.get(number), downloads)
        self._write_shards()
        if self.copy_lake is not None:
            self.copy_lake(self.folder, result)
        self._copy_revisions()
        self._copy_public_sql()
        result.documents += refresh(self._local, ())
        self._sign()
        result.seconds = time.monotonic() - begun
        return result

    @property
    def _local(self) -> Archive:
        return Archive(self.folder.store, self.source.chain_id)

    def _shard(
        self, number: int, data: bytes, before: ShardSummary | None, downloads: Downloads
    ) -> None:
        """Have the ZIPs of a shard, then itself, then what follows from it."""
        path, result = shard_path(number), self.result
        entries = self.source.parse_shard(number, data).entries
        own = {entry.path: entry.sha256 for entry in self._own_entries(number)}
        lacking = list(self._lacking(entries, downloads))
        old = [e for e in lacking if own.get(e.path, e.sha256) != e.sha256]
        failed = list(self._failed(lacking, old, downloads))
        if any(item in old for item in failed):
            return  # bundles may have been replaced with it: they change together
        if failed:
            there = tuple(item for item in entries if item not in failed)
            data = Shard(self.source.chain_id, number, there).to_bytes()
        if data == self._local.read(path) and self._is_followed(number, data, before):
            return
        if old:
            self._unsign()
            self._copy_revisions()  # before the ZIPs that they tell of
            result.replaced.extend(self._replace(old, own))
        self._finished[number] = data
        since = time.monotonic() - self._refreshed
        is_cheap = self._refresh_seconds < since * _REFRESH_SHARE
        if old or is_cheap or len(self._finished) >= _MOST_FINISHED:
            self._write_shards()

    def _write_shards(self) -> None:
        """Write the shards whose ZIPs are there, and let index, hash lists and pages follow."""
        if not self._finished:
            return
        begun = time.monotonic()
        self._unsign()
        for number, data in self._finished.items():
            self._write(shard_path(number), data, _JSON)
        self.result.documents += refresh(self._local, self._finished)
        self._finished.clear()
        self._refreshed = time.monotonic()
        self._refresh_seconds = self._refreshed - begun

    def _is_followed(self, number: int, data: bytes, before: ShardSummary | None) -> bool:
        """Whether index and hash list are those of a shard: who was killed leaves older ones."""
        hashes = self._local.read(hashes_path(number)) or b""
        return before is not None and (before.sha256, before.hashes_sha256) == (
            hashlib.sha256(data).hexdigest(),
            hashlib.sha256(hashes).hexdigest(),
        )

    def _own_index(self) -> ArchiveIndex:
        try:
            return self._local.index()
        except IntegrityError:  # it is made again
            return ArchiveIndex(self.source.chain_id)

    def _own_entries(self, number: int) -> Sequence[Entry]:
        try:
            return self._local.shard(number).entries
        except IntegrityError:  # it is written anew
            return ()

    def _lacking(self, entries: Iterable[Entry], downloads: Downloads) -> Iterator[Entry]:
        """The ZIPs that are not there as the index says; those that are count as done."""
        for entry in entries:
            self.result.zips += 1
            self.result.bytes += entry.bytes
            try:
                published_copy(self._local, entry, self.folder.proofs).prove()
            except DamagedCopyError:
                yield entry
            else:
                downloads.advance(entry.bytes)
                if self._local.store.head(self._local.key(f"{entry.path}.sha256")) is None:
                    put_hash_file(self._local, entry)

    def _failed(
        self, lacking: Sequence[Entry], old: Sequence[Entry], downloads: Downloads
    ) -> Iterator[Entry]:
        """Fetch ZIPs; yields those that the archive does not have as its index says."""
        known_bytes = [downloads.held(entry) for entry in lacking]
        downloads.advance(sum(known_bytes))
        failures = downloads.on_each(
            lambda entry: self._fetch(entry, old, downloads), lacking, self.jobs
        )
        for entry, known, why in zip(lacking, known_bytes, failures, strict=True):
            if why:
                self.result.failures.append(why)
                yield entry
            else:
                self.result.fetched.append(entry.path)
                self.result.fetched_bytes += entry.bytes - known

    def _fetch(
        self, entry: Entry, old: Sequence[Entry], downloads: Downloads
    ) -> DamagedCopyError | None:
        try:
            if entry in old:
                downloads.fetch(entry, self._waiting(entry))
            else:
                self.folder.take(downloads, self.source.chain_id, entry)
                put_hash_file(self._local, entry)
        except DamagedCopyError as damage:
            return damage
        return None

    def _waiting(self, entry: Entry) -> Path:
        """Where a ZIP that takes the place of another waits for its shard."""
        return self.folder.scratch / f"{entry.sha256}.zip"

    def _replace(self, waiting: Iterable[Entry], own: Mapping[str, str]) -> Iterator[ReplacedZip]:
        """Put ZIPs in the place of others; gives them with what the revisions say of it."""
        events = {(event.path, event.new_sha256): event for event in revisions(self._local)}
        for entry in waiting:
            place = self.folder.store.path(self._local.key(entry.path))
            commit_file(self._waiting(entry), place)
            put_hash_file(self._local, entry)
            yield ReplacedZip(entry, own[entry.path], events.get((entry.path, entry.sha256)))

    def _copy_revisions(self) -> None:
        """Have the list of revisions that the archive has, if there is one that is whole."""
        data = self.source.read(REVISIONS)
        parse_revisions(data, self.source)
        if data is not None:
            self._write(REVISIONS, data, _JSON)

    def _copy_public_sql(self) -> None:
        """Have the statements over the lake, and their database, to the byte, if they are a pair.

        The archive's publisher may be about to replace both; those from before stay until then.
        """
        names = (PUBLIC_DATABASE, PUBLIC_SQL)
        sql = self.source.read(PUBLIC_SQL)
        if sql is None:
            for name in reversed(names):
                self.folder.store.delete(self._local.key(name))
            return
        database = self.source.read(PUBLIC_DATABASE)
        _, sha256 = unsealed_sql(sql, self.source.place(PUBLIC_SQL))
        if database is None or hashlib.sha256(database).hexdigest() != sha256:
            return
        self._unsign()
        for name, data in zip(names, (database, sql), strict=True):
            self._write(name, data, PUBLIC_TYPES[name])

    def _sign(self) -> None:
        """Have the signatures of documents that are those of the archive to the byte; no others."""
        for name in SIGNATURES:
            path = f"{name}{ENDING}"
            signature = self.source.read(path)
            if signature is not None and self.source.read(name) == self._local.read(name):
                self._write(path, signature, _TEXT)
            else:
                self.folder.store.delete(self._local.key(path))

    def _unsign(self) -> None:
        """Have no signatures of documents that are about to be others."""
        for name in SIGNATURES:
            self.folder.store.delete(self._local.key(f"{name}{ENDING}"))

    def _write(self, path: str, data: bytes, content_type: str) -> None:
        update(self.folder.store, self._local.key(path), lambda _: data, content_type)
