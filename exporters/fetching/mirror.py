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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from exporters.archive.archive import Archive, update
from exporters.archive.documents import refresh
from exporters.archive.entries import Entry
from exporters.archive.hash_lists import ENDING, SIGNATURES, put_hash_file
from exporters.archive.public_sql import PUBLIC_DATABASE, PUBLIC_SQL, PUBLIC_TYPES, unsealed_sql
from exporters.archive.revisions import REVISIONS, Revision, parse_revisions, revisions
from exporters.archive.shards import Shard, hashes_path, shard_path
from exporters.exports.copies import DamagedCopyError, no_other_copy
from exporters.exports.published_zips import published_copy
from exporters.fetching.fetch_folder import JOBS, FetchFolder, Progress, no_progress
from exporters.fetching.past import CheckedShards, checked_shards
from exporters.fetching.zip_downloads import Downloads
from transforms.errors import ConfigError, IntegrityError
from transforms.files import commit_file, new_file

_JSON, _TEXT = "application/json", "text/plain; charset=utf-8"
# Documents are brought up to date when that has cost less than so much of the time since then.
_REFRESH_SHARE = 0.05
_MOST_PENDING = 64
_UNFINISHED = "unfinished"


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
        return _Mirror(source, folder, jobs, progress, copy_lake).run()


@dataclass(frozen=True, slots=True)
class _Finished:
    """A shard whose ZIPs are all there; those in `replaced` wait to take the place of others."""

    number: int
    data: bytes
    replaced: Sequence[ReplacedZip]


@dataclass(slots=True)
class _Mirror:
    source: Archive
    folder: FetchFolder
    jobs: int
    progress: Progress
    copy_lake: Copy | None = None
    _finished: list[_Finished] = field(default_factory=list)
    _revisions: bytes | None = None
    _refreshed: float = 0.0
    _refresh_seconds: float = 0.0

    def run(self) -> Mirrored:
        begun, result = time.monotonic(), Mirrored(self.source.chain_id)
        index = self.source.index()
        shards = checked_shards(self._local, self.source, index)
        total = sum(sums.bytes + sums.bundle_bytes for sums in index.tables.values())
        with self.progress("fetching", total) as advance:
            downloads = Downloads(self.source, self.folder.scratch, advance)
            try:
                for number in index.lines:
                    self._shard(number, shards, downloads, result)
                    if self._is_time():
                        self._commit(result)
            except BaseException:
                if self._finished:  # whatever went wrong, up to here it is an archive
                    self._commit(result)
                raise
        self._read_revisions()
        if self.copy_lake is not None:
            if self._finished:
                self._commit(result)
            self.copy_lake(self.folder, result)
        self._copy_public_sql()
        self._commit(result)
        self._sign()
        result.seconds = time.monotonic() - begun
        return result

    @property
    def _local(self) -> Archive:
        return Archive(self.folder.store, self.source.chain_id)

    def _shard(
        self, number: int, shards: CheckedShards, downloads: Downloads, result: Mirrored
    ) -> None:
        path, data = shard_path(number), shards.read(number)
        entries = self.source.parse_shard(number, data).entries
        before = {entry.path: entry for entry in self._held_shard(number).entries}
        lacking = list(self._lacking(entries, downloads, result))
        known_bytes = [downloads.held(entry) for entry in lacking]
        downloads.advance(sum(known_bytes))
        old = [e for e in lacking if e.path in before and before[e.path].sha256 != e.sha256]
        if old:
            self._read_revisions()
        failures = downloads.on_each(
            lambda entry: self._fetch(entry, old, downloads), lacking, self.jobs
        )
        failed = []
        for entry, known, why in zip(lacking, known_bytes, failures, strict=True):
            if why:
                failed.append(entry)
                result.failures.append(why)
            else:
                result.fetched.append(entry.path)
                result.fetched_bytes += entry.bytes - known
        if any(item in old for item in failed):
            return  # bundles may have been replaced with it: they change together
        if failed:
            there = tuple(item for item in entries if item not in failed)
            data = Shard(self.source.chain_id, number, there).to_bytes()
        replaced = [ReplacedZip(item, before[item.path].sha256, None) for item in old]
        if data != self._local.read(path):
            self._finished.append(_Finished(number, data, replaced))
        elif self._local.read(hashes_path(number)) != self._local.shard(number).hashes():
            self._remember(number)  # what the mirror remembers of a shard that gets damaged

    def _is_time(self) -> bool:
        since = time.monotonic() - self._refreshed
        is_cheap = self._refresh_seconds < since * _REFRESH_SHARE
        return bool(self._finished) and (is_cheap or len(self._finished) >= _MOST_PENDING)

    def _commit(self, result: Mirrored) -> None:
        """Write the shards whose ZIPs are there, and what follows from them."""
        begun = time.monotonic()
        if self._finished:
            self._unsign()
        self._write_revisions()  # before the ZIPs that it tells of
        for shard in self._finished:
            self._remember(shard.number)
            if shard.replaced:
                result.replaced.extend(self._replace(shard.replaced))
            key, data = self._local.key(shard_path(shard.number)), shard.data
            update(self.folder.store, key, partial(_always, data), _JSON)
        self._finished.clear()
        result.documents += refresh(self._local, self._unfinished())
        self._unfinished_file.unlink(missing_ok=True)
        self._refreshed = time.monotonic()
        self._refresh_seconds = self._refreshed - begun

    def _held_shard(self, number: int) -> Shard:
        try:
            return self._local.shard(number)
        except IntegrityError:  # it is written anew
            return Shard(self.source.chain_id, number)

    def _lacking(
        self, entries: Iterable[Entry], downloads: Downloads, result: Mirrored
    ) -> Iterator[Entry]:
        """The ZIPs that are not there as the index says; those that are count as done."""
        for entry in entries:
            result.zips += 1
            result.bytes += entry.bytes
            try:
                published_copy(self._local, entry, self.folder.proofs, no_other_copy).prove()
            except DamagedCopyError:
                yield entry
            else:
                downloads.advance(entry.bytes)
                if self._local.store.head(self._local.key(f"{entry.path}.sha256")) is None:
                    put_hash_file(self._local, entry)

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

    def _replace(self, waiting: Iterable[ReplacedZip]) -> Iterator[ReplacedZip]:
        """Put ZIPs in the place of others; gives them with what the revisions say of it."""
        events = {(event.path, event.new_sha256): event for event in revisions(self._local)}
        for item in waiting:
            path = item.entry.path
            commit_file(self._waiting(item.entry), self.folder.store.path(self._local.key(path)))
            put_hash_file(self._local, item.entry)
            yield replace(item, event=events.get((path, item.entry.sha256)))

    def _read_revisions(self) -> None:
        """Read the list of revisions; one that is damaged is not taken."""
        self._revisions = self.source.read(REVISIONS)
        parse_revisions(self._revisions, self.source)

    def _write_revisions(self) -> None:
        """Have the list of revisions that the archive has."""
        if self._revisions is not None:
            key = self._local.key(REVISIONS)
            update(self.folder.store, key, partial(_always, self._revisions), _JSON)

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
            update(
                self.folder.store, self._local.key(name), partial(_always, data), PUBLIC_TYPES[name]
            )

    def _sign(self) -> None:
        """Have the signatures of documents that are those of the archive to the byte; no others."""
        for name in SIGNATURES:
            path = f"{name}{ENDING}"
            signature = self.source.read(path)
            if signature is not None and self.source.read(name) == self._local.read(name):
                update(self.folder.store, self._local.key(path), partial(_always, signature), _TEXT)
            else:
                self.folder.store.delete(self._local.key(path))

    def _unsign(self) -> None:
        """Have no signatures of documents that are about to be others."""
        for name in SIGNATURES:
            self.folder.store.delete(self._local.key(f"{name}{ENDING}"))

    def _remember(self, number: int) -> None:
        """Write down that documents do not follow from a shard yet, in case of a kill."""
        numbers = {*self._unfinished(), number}
        with new_file(self._unfinished_file) as file:
            file.write("".join(f"{shard}\n" for shard in sorted(numbers)).encode())

    @property
    def _unfinished_file(self) -> Path:
        return self.folder.scratch / f"{_UNFINISHED}-{self.source.chain_id}"

    def _unfinished(self) -> list[int]:
        path = self._unfinished_file
        return [int(line) for line in path.read_text().split()] if path.exists() else []


def _always(data: bytes, _before: bytes | None) -> bytes:
    return data
