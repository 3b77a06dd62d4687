"""A whole archive, fetched: a mirror, which is an archive itself.

ZIPs come first, shard by shard, then the shard. ZIPs that are to take the place of others wait in
the scratch until all shards are there. Then they get to their places, and the index names the new
shards. What follows from them (hash lists, pages) is made anew, as any publisher would: so who is
killed leaves the archive of before. The lake, the signatures and what else does not follow from
shards are copied to the byte. Before anything else the archive is held against what the mirror
remembers of it: one whose past changed is refused (`exporters.mirroring.past`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from exporters.archive.archive import Archive, update
from exporters.archive.documents import refresh
from exporters.archive.entries import Entry
from exporters.archive.hash_lists import ENDING, SIGNATURES, SUMS, parse_sums, put_hash_file
from exporters.archive.index import ArchiveIndex, ShardSummary
from exporters.archive.listed_documents import listed_documents
from exporters.archive.public_sql import PUBLIC_DATABASE, PUBLIC_SQL, PUBLIC_TYPES
from exporters.archive.revisions import REVISIONS, Revision, parse_revisions
from exporters.archive.shards import hashes_path
from exporters.archive.sound_documents import INDEX, PAGE
from exporters.archive.stored_shards import put_shard, sweep_shards
from exporters.exports.copies import DamagedCopyError
from exporters.exports.published_zips import published_copy
from exporters.fetching.fetch_folder import JOBS, FetchFolder, Progress, no_progress
from exporters.fetching.zip_downloads import Downloads
from exporters.mirroring.past import check_same_past
from transforms.errors import ConfigError, IntegrityError
from transforms.files import commit_file
from transforms.stores.store import content_sha256

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
    damaged; `BusyError` where a document differs from `SHA256SUMS`, or another process fetches
    into the folder; and errors of the machine.
    """
    page = source.store.path("index.html")
    if page is not None and page.parent.resolve() == out.resolve():
        raise ConfigError(f"{out} is the archive itself: name another folder with --out")
    with FetchFolder(out).opened() as folder:

        def copied(before: ArchiveIndex) -> Mirrored:
            # The logs are read before the index, so that the lake never names blocks without ZIPs.
            lake = _read_lake(source, folder, jobs, progress, warn) if before.has_lake else None
            documents = listed_documents(source)
            index = source.parse_index(documents[INDEX])
            local = Archive(folder.store, source.chain_id, warehouses=index.warehouses)
            return _Mirror(source, local, folder, jobs, index, documents).run(lake, progress)

        return source.read_twice(copied)


def _read_lake(
    source: Archive,
    folder: FetchFolder,
    jobs: int,
    progress: Progress,
    warn: Callable[[str], object],
) -> LakeMirror | None:
    """Read the logs of the archive's lake; return None where this installation cannot."""
    try:
        # An installation without pyarrow still fetches ZIPs.
        from exporters.mirroring.lake_mirror import LakeMirror
    except ModuleNotFoundError as error:
        place, remedy = source.place("lake"), "pip install 'strata[pipeline]'"
        warn(f"{place} is not copied without {error.name}: {remedy}")
        return None
    lake = LakeMirror(source, folder, jobs, progress)
    lake.read()
    return lake


@dataclass(slots=True)
class _Mirror:
    """The archive `source`, whose index and listed documents were read, on its way to `local`."""

    source: Archive
    local: Archive
    folder: FetchFolder
    jobs: int
    index: ArchiveIndex
    documents: Mapping[str, bytes]
    revisions: Sequence[Revision] = field(init=False)
    result: Mirrored = field(init=False)
    _own_sums: Mapping[str, str] = field(init=False)
    _shards: list[ShardSummary] = field(default_factory=list)
    _replacing: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.revisions = parse_revisions(self.documents.get(REVISIONS), self.source)
        self.result = Mirrored(self.source.chain_id)
        self._own_sums = parse_sums(self.local.read(SUMS) or b"")

    def run(self, lake: LakeMirror | None, progress: Progress) -> Mirrored:
        """See `mirror`."""
        before = check_same_past(self.local, self.source, self.index, self.revisions)
        total = sum(sums.bytes for sums in self.index.tables.values())
        with progress("fetching", total) as advance:
            downloads = Downloads(self.source, self.folder.scratch, advance)
            for shard in self.index.shards.values():
                self._shard(shard, before, downloads)
        self._take_places()
        if lake is not None:
            lake.copy()
            self.result.lake_files, self.result.lake_refused = lake.files, lake.refused
        for name in (PUBLIC_DATABASE, PUBLIC_SQL):
            self._copy(name, PUBLIC_TYPES[name])
        refresh(self.local, ())
        sweep_shards(self.local)
        self._sign()
        refresh(self.local, (), [PAGE])  # it links the signatures
        return self.result

    def _shard(self, shard: ShardSummary, before: ArchiveIndex, downloads: Downloads) -> None:
        """Have the ZIPs of a shard, then the shard."""
        entries = self._own_entries(shard.number, before)
        own_summary = before.shards.get(shard.number)
        is_there = entries is not None and own_summary and own_summary.sha256 == shard.sha256
        data = (self.local if is_there else self.source).shard_bytes(shard)
        own = {entry.path: entry.sha256 for entry in entries or ()}
        lacking = list(self._lacking(self.source.parse_shard(shard, data).entries, downloads))
        old = [entry for entry in lacking if own.get(entry.path, entry.sha256) != entry.sha256]
        if self._have_failed(lacking, old, downloads):
            return
        hashes = self.local.read(hashes_path(shard.number)) or b""
        # The list is written after the pages, which a killed mirror may lack.
        is_listed = self._own_sums.get(shard.path) == shard.sha256
        is_followed = is_listed and content_sha256(hashes) == shard.hashes_sha256
        if not (is_there and is_followed):
            self._shards.append(put_shard(self.local, shard.number, data))
            self._replacing += old

    def _own_entries(self, number: int, before: ArchiveIndex) -> Sequence[Entry] | None:
        """The entries of the mirror's shard; None if it is damaged."""
        try:
            return self.local.shard(number, before).entries
        except IntegrityError:
            return None

    def _lacking(self, entries: Iterable[Entry], downloads: Downloads) -> Iterator[Entry]:
        """The ZIPs that are not there as the index says; those that are count as done."""
        for entry in entries:
            self.result.zips += 1
            self.result.bytes += entry.bytes
            try:
                published_copy(self.local, entry, self.folder.proofs).prove()
            except DamagedCopyError:
                yield entry
            else:
                downloads.advance(entry.bytes)
                if self.local.store.head(self.local.key(f"{entry.path}.sha256")) is None:
                    put_hash_file(self.local, entry)

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
                    put_hash_file(self.local, entry)
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
        return self.folder.store.path(self.local.key(path))

    def _take_places(self) -> None:
        """Let everything that waits get to its place, and what follows from shards follow."""
        reasons = {(event.path, event.new_sha256): event.reason for event in self.revisions}
        self._copy(REVISIONS, _JSON)  # before the ZIPs that it tells of
        for entry in self._replacing:
            commit_file(self._waiting(entry.path), self._place(entry.path))
            put_hash_file(self.local, entry)
            self.result.replaced[entry.path] = reasons.get((entry.path, entry.sha256), "not said")
        numbers = [shard.number for shard in self._shards]
        refresh(self.local, numbers, change=lambda index: index.including(self._shards))

    def _copy(self, name: str, content_type: str) -> None:
        """Have a document to the byte, if the archive lists it."""
        if (data := self.documents.get(name)) is not None:
            self._write(name, data, content_type)

    def _sign(self) -> None:
        """Have the signatures of documents that are those of the archive to the byte; no others."""
        for name in SIGNATURES:
            path = f"{name}{ENDING}"
            signature = self.source.read(path)
            if signature is not None and self.source.read(name) == self.local.read(name):
                self._write(path, signature, _TEXT)
            else:
                self.folder.store.delete(self.local.key(path))

    def _write(self, path: str, data: bytes, content_type: str) -> None:
        update(self.folder.store, self.local.key(path), lambda _: data, content_type)
