"""A whole archive, fetched: a mirror, which is an archive itself.

ZIPs come first, shard by shard. A shard waits in the scratch until all its ZIPs are there, and with
it the ZIPs that are to take the place of others. Then all of these get to their places together,
and what follows from them (hash lists, index, pages) is made anew, as any publisher would: so who
is killed leaves the archive of before. The lake, the signatures and what else does not follow from
shards are copied to the byte. Before anything else the archive is held against what the mirror
remembers of it: one whose past changed is refused (`exporters.mirroring.past`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from exporters.archive.archive import Archive, update
from exporters.archive.documents import refresh
from exporters.archive.entries import Entry
from exporters.archive.hash_lists import ENDING, SIGNATURES, put_hash_file
from exporters.archive.index import ShardSummary
from exporters.archive.public_sql import PUBLIC_DATABASE, PUBLIC_SQL, PUBLIC_TYPES, unsealed_sql
from exporters.archive.revisions import REVISIONS, parse_revisions
from exporters.archive.shards import hashes_path, shard_path
from exporters.exports.copies import DamagedCopyError
from exporters.exports.published_zips import published_copy
from exporters.fetching.fetch_folder import JOBS, FetchFolder, Progress, no_progress
from exporters.fetching.zip_downloads import Downloads
from exporters.mirroring.past import checked_shards, own_index
from transforms.errors import ConfigError, IntegrityError
from transforms.files import commit_file, new_file

if TYPE_CHECKING:
    from exporters.mirroring.lake_mirror import LakeMirror

_JSON, _TEXT = "application/json", "text/plain; charset=utf-8"


@dataclass(slots=True)
class Mirrored:
    """What came of it: `fetched` are paths below the chain's folder.

    `replaced` are the reasons for which ZIPs took the place of others, by path. `lake_files` of the
    lake were fetched; `lake_refused` says which tables of it were not, and why. `failures` are the
    ZIPs that the archive lacks, or has other ones of than its index says: their shards stay as they
    were.
    """

    chain_id: str
    zips: int = 0
    bytes: int = 0
    fetched: list[str] = field(default_factory=list)
    fetched_bytes: int = 0
    replaced: dict[str, str] = field(default_factory=dict)
    failures: list[DamagedCopyError] = field(default_factory=list)
    lake_files: int = 0
    lake_refused: list[str] = field(default_factory=list)


def mirror(
    source: Archive,
    out: Path,
    *,
    jobs: int = JOBS,
    progress: Progress = no_progress,
    warn: Callable[[str], object] = lambda _: None,
) -> Mirrored:
    """Make the archive in the folder `out` what `source` is; run again, only what is new comes.

    `warn` is told why a lake is not copied. Raises `PastChangedError` where what the mirror has is
    no longer there, without a revision; `IntegrityError` where a document of the archive is
    damaged, `BusyError` where another process fetches into the folder; and errors of the machine.
    """
    page = source.store.path("index.html")
    if page is not None and page.parent.resolve() == out.resolve():
        raise ConfigError(f"{out} is the archive itself: name another folder with --out")
    with FetchFolder(out).opened() as folder:
        return _Mirror(source, folder, jobs, progress, warn, Mirrored(source.chain_id)).run()


@dataclass(slots=True)
class _Mirror:
    source: Archive
    folder: FetchFolder
    jobs: int
    progress: Progress
    warn: Callable[[str], object]
    result: Mirrored
    _shards: list[int] = field(default_factory=list)
    _replacing: list[Entry] = field(default_factory=list)

    def run(self) -> Mirrored:
        """See `mirror`."""
        lake = self._lake() if self.source.index().has_lake else None
        index = self.source.index()
        shard_bytes = checked_shards(self._local, self.source, index)
        before = own_index(self._local)
        total = sum(sums.bytes for sums in index.tables.values())
        with self.progress("fetching", total) as advance:
            downloads = Downloads(self.source, self.folder.scratch, advance)
            for number in index.shards:
                self._shard(number, shard_bytes(number), before.shards.get(number), downloads)
        self._take_places()
        if lake is not None:
            lake.copy()
            self.result.lake_files, self.result.lake_refused = lake.files, lake.refused
        self._copy_public_sql()
        refresh(self._local, ())
        self._sign()
        return self.result

    @property
    def _local(self) -> Archive:
        return Archive(
            self.folder.store, self.source.chain_id, warehouses=self.source.index().warehouses
        )

    def _lake(self) -> LakeMirror | None:
        """The lake, read before the index is: it never has what has no ZIPs."""
        try:
            # Whoever fetches ZIPs alone needs none of what reads Parquet.
            from exporters.mirroring.lake_mirror import LakeMirror
        except ModuleNotFoundError as error:
            place, what = self.source.place("lake"), "pip install 'strata[pipeline]'"
            self.warn(f"{place} is not copied without {error.name}: {what}")
            return None
        lake = LakeMirror(self.source, self.folder, self.jobs, self.progress)
        lake.read()
        return lake

    def _shard(
        self, number: int, data: bytes, before: ShardSummary | None, downloads: Downloads
    ) -> None:
        """Have the ZIPs of a shard; it waits, unless it is there."""
        own = {entry.path: entry.sha256 for entry in self._own_entries(number)}
        entries = self.source.parse_shard(number, data).entries
        lacking = list(self._lacking(entries, downloads))
        old = [entry for entry in lacking if own.get(entry.path, entry.sha256) != entry.sha256]
        if self._have_failed(lacking, old, downloads) or self._is_followed(number, data, before):
            return
        with new_file(self._waiting(shard_path(number))) as file:
            file.write(data)
        self._shards.append(number)
        self._replacing += old

    def _is_followed(self, number: int, data: bytes, before: ShardSummary | None) -> bool:
        """Whether a shard is there, and index and hash list are its own."""
        hashes = self._local.read(hashes_path(number)) or b""
        return data == self._local.read(shard_path(number)) and (
            before is not None
            and before.sha256 == hashlib.sha256(data).hexdigest()
            and before.hashes_sha256 == hashlib.sha256(hashes).hexdigest()
        )

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

    def _have_failed(
        self, lacking: Sequence[Entry], old: Sequence[Entry], downloads: Downloads
    ) -> bool:
        """Fetch ZIPs; whether the archive does not have one of them as its index says."""
        known_bytes = [downloads.held(entry) for entry in lacking]
        downloads.advance(sum(known_bytes))

        def fetch(entry: Entry) -> DamagedCopyError | None:
            try:
                if entry in old:
                    downloads.fetch(entry, self._waiting(entry.path))
                else:
                    self.folder.take(downloads, self.source.chain_id, entry)
                    put_hash_file(self._local, entry)
            except DamagedCopyError as damage:
                return damage
            return None

        failures = downloads.on_each(fetch, lacking, self.jobs)
        for entry, known, failure in zip(lacking, known_bytes, failures, strict=True):
            if failure is None:
                self.result.fetched.append(entry.path)
                self.result.fetched_bytes += entry.bytes - known
        self.result.failures += filter(None, failures)
        return any(failures)

    def _waiting(self, path: str) -> Path:
        """Where what is to get to a path waits."""
        return self.folder.scratch / path.rpartition("/")[2]

    def _place(self, path: str) -> Path:
        return self.folder.store.path(self._local.key(path))

    def _take_places(self) -> None:
        """Let everything that waits get to its place, and what follows from shards follow."""
        data = self.source.read(REVISIONS)
        reasons = {(r.path, r.new_sha256): r.reason for r in parse_revisions(data, self.source)}
        if data is not None:  # before the ZIPs that it tells of
            self._write(REVISIONS, data, _JSON)
        for entry in self._replacing:
            commit_file(self._waiting(entry.path), self._place(entry.path))
            put_hash_file(self._local, entry)
            self.result.replaced[entry.path] = reasons.get((entry.path, entry.sha256), "not said")
        for number in self._shards:
            commit_file(self._waiting(shard_path(number)), self._place(shard_path(number)))
        refresh(self._local, self._shards)

    def _copy_public_sql(self) -> None:
        """Have the statements over the lake, and their database, to the byte, if they are a pair.

        The archive's publisher may be about to replace both; those from before stay until then.
        """
        sql, database = map(self.source.read, (PUBLIC_SQL, PUBLIC_DATABASE))
        if sql is None or database is None:
            return
        _, sha256 = unsealed_sql(sql, self.source.place(PUBLIC_SQL))
        if hashlib.sha256(database).hexdigest() == sha256:
            self._write(PUBLIC_DATABASE, database, PUBLIC_TYPES[PUBLIC_DATABASE])
            self._write(PUBLIC_SQL, sql, PUBLIC_TYPES[PUBLIC_SQL])

    def _sign(self) -> None:
        """Have the signatures of documents that are those of the archive to the byte; no others."""
        for name in SIGNATURES:
            path = f"{name}{ENDING}"
            signature = self.source.read(path)
            if signature is not None and self.source.read(name) == self._local.read(name):
                self._write(path, signature, _TEXT)
            else:
                self.folder.store.delete(self._local.key(path))

    def _write(self, path: str, data: bytes, content_type: str) -> None:
        update(self.folder.store, self._local.key(path), lambda _: data, content_type)
