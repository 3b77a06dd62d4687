"""Publishing: ZIPs first, then their hash files, new shards, the index, then the pages.

Each step stands on the ones before it, so a publisher that dies leaves a smaller archive, never a
wrong one: at worst an object that no entry names yet, which is found there when its segment is
published again. Doing it again changes nothing. Several publishers may work on one archive at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from itertools import islice

from exporters.archive.archive import Archive
from exporters.archive.documents import IndexChange, refresh
from exporters.archive.entries import Entry
from exporters.archive.hash_lists import SUMS, put_hash_file
from exporters.archive.index import ArchiveIndex
from exporters.archive.revisions import Revision, check_present, record
from exporters.archive.shards import Shard, hashes_path, shard_number
from exporters.archive.sound_documents import INDEX
from exporters.archive.stored_shards import put_shard, sweep_shards
from exporters.publishing.replace import Correction, replace_object
from exporters.publishing.request import PublishRequest
from transforms.errors import ConflictError, IntegrityError
from transforms.stores.store import PutResult

_BATCH = 3_000  # requests between two writes of the index: it bounds what is held in memory
_REASON = "its ZIP was gone and was made again"
ZIP_TYPE = "application/zip"


class Outcome(Enum):
    """What became of one ZIP."""

    CREATED = "created"
    IDENTICAL = "identical"
    REPLACED = "replaced"
    CONFLICT = "conflict"
    """Other bytes stand in its place."""
    DAMAGED = "damaged"
    """Its own file is not what it should be."""


@dataclass(frozen=True, slots=True)
class Published:
    """One ZIP after the attempt: its name and table, its entry unless it failed, and then why."""

    name: str
    outcome: Outcome
    entry: Entry | None = None
    reason: str = ""
    table: str = ""


@dataclass(frozen=True, slots=True)
class PublishReport:
    """What became of all of them."""

    results: tuple[Published, ...] = ()

    def _having(self, *outcomes: Outcome) -> tuple[Published, ...]:
        return tuple(result for result in self.results if result.outcome in outcomes)

    @property
    def created(self) -> int:
        """How many are new."""
        return len(self._having(Outcome.CREATED))

    @property
    def identical(self) -> int:
        """How many were there."""
        return len(self._having(Outcome.IDENTICAL))

    @property
    def replaced(self) -> int:
        """How many took the place of others."""
        return len(self._having(Outcome.REPLACED))

    @property
    def failed(self) -> tuple[Published, ...]:
        """Those that are not in place."""
        return self._having(Outcome.CONFLICT, Outcome.DAMAGED)

    @property
    def bytes(self) -> int:
        """The length of those that were written."""
        written = self._having(Outcome.CREATED, Outcome.REPLACED)
        return sum(result.entry.bytes for result in written if result.entry)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries of those that are in place."""
        return tuple(result.entry for result in self.results if result.entry)

    def and_(self, others: Iterable[Published]) -> PublishReport:
        """The report with others added."""
        return PublishReport((*self.results, *others))


def publish_zips(
    archive: Archive,
    requests: Iterable[PublishRequest],
    workers: int = 16,
    *,
    correction: Correction | None = None,
    doubtful: Collection[int] = (),
) -> PublishReport:
    """Publish ZIPs and describe them in the index; see the module for what a crash leaves.

    A ZIP that is not what its request says, or in whose place other bytes stand, counts as failed;
    the rest goes on. With a `correction` such bytes are replaced, one ZIP after the other, so that
    the revisions have the order of the requests. What follows from the index, and from `doubtful`
    shards, is written once, at the end. Errors of the machine end the run as they are: run it
    again. Raises `IntegrityError` if a shard is damaged or missing, or the revisions are.
    """
    if archive.signer is not None:
        _ = archive.signer.key  # one that cannot be used is said before anything is written
    check_present(archive, archive.read(SUMS))
    published: list[Published] = []
    pending = iter(requests)
    put = partial(_publish_one, archive, correction)
    shards = set(doubtful)
    while results := _put_some(pending, put, 1 if correction else workers):
        shards |= {shard_number(result.entry.blocks) for result in results if result.entry}
        refresh(archive, (), [INDEX], _naming(archive, results))
        published += results
    if shards:
        refresh(archive, shards)
        sweep_shards(archive)
    return PublishReport(tuple(published))


def _put_some(
    requests: Iterator[PublishRequest], put: Callable[[PublishRequest], Published], workers: int
) -> list[Published]:
    """Put the next ZIPs there, as many as are described at once.

    What is replaced differs from its entry until that is written: never more than one ZIP does.
    """
    if workers > 1:
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(put, islice(requests, _BATCH)))
    results: list[Published] = []
    for request in islice(requests, _BATCH):
        results.append(put(request))
        if results[-1].outcome is Outcome.REPLACED:
            break
    return results


def _naming(archive: Archive, published: Iterable[Published]) -> IndexChange:
    """Describe ZIPs that are in place in new shards, and these in the index.

    Raises `IntegrityError` for a shard that is damaged or gone.
    """
    new_entries = defaultdict[int, list[Entry]](list)
    for entry in (result.entry for result in published if result.entry):
        new_entries[shard_number(entry.blocks)].append(entry)

    def change(index: ArchiveIndex) -> ArchiveIndex:
        summaries = []
        for number, entries in sorted(new_entries.items()):
            shard = _shard_before(archive, number, index)
            _record_changes(archive, shard.entries, entries)
            summaries.append(put_shard(archive, number, shard.including(entries).to_bytes()))
        return index.including(summaries)

    return change


def _record_changes(archive: Archive, before: Iterable[Entry], fresh: Iterable[Entry]) -> None:
    """Put on record what takes the place of a ZIP that is gone, if it has other bytes."""
    hashes = {entry.path: entry.sha256 for entry in before}
    for entry in fresh:
        old = hashes.get(entry.path, entry.sha256)
        if old != entry.sha256:
            now = datetime.now(UTC)
            record(archive, Revision(entry.path, old, entry.sha256, _REASON, now))


def _shard_before(archive: Archive, number: int, index: ArchiveIndex) -> Shard:
    """Return the index's shard, or an empty one for blocks that never had one."""
    hashes = archive.key(hashes_path(number))
    if number not in index.shards and archive.store.head(hashes) is not None:
        place = archive.store.describe(hashes)
        raise IntegrityError(f"the shard of {place} is gone: strata publish makes it again")
    return archive.shard(number, index)


def begin_again(archive: Archive, number: int) -> None:
    """Put an empty shard in the place of a lost one, so that its ZIPs can be published again."""

    def change(index: ArchiveIndex) -> ArchiveIndex:
        with suppress(IntegrityError):
            if number in index.shards:
                archive.shard(number, index)
                return index  # another publisher was faster
        empty = Shard(archive.chain_id, number).to_bytes()
        return index.including([put_shard(archive, number, empty)])

    refresh(archive, (), [INDEX], change)


def _publish_one(
    archive: Archive, correction: Correction | None, request: PublishRequest
) -> Published:
    try:
        return _publish(archive, correction, request)
    except ConflictError as error:
        table, blocks = request.schema.table, request.segment.blocks
        remedy = (
            f"strata publish --replace REASON --table {table} --blocks {blocks} puts ours there"
        )
        return Published(request.name, Outcome.CONFLICT, None, f"{error}: {remedy}", table)
    except IntegrityError as error:
        return Published(request.name, Outcome.DAMAGED, None, str(error), request.schema.table)


def _publish(archive: Archive, correction: Correction | None, request: PublishRequest) -> Published:
    entry = request.entry()
    try:
        result = archive.store.put_if_absent(
            archive.key(entry.path),
            request.content,
            content_type=ZIP_TYPE,
            sha256=entry.sha256,
            immutable=False,  # a correction puts other bytes there
        )
        outcome = Outcome.CREATED if result is PutResult.CREATED else Outcome.IDENTICAL
    except ConflictError:
        if correction is None:
            raise
        replace_object(archive, entry, request.content, correction)
        outcome = Outcome.REPLACED
    put_hash_file(archive, entry)
    return Published(request.name, outcome, entry, table=request.schema.table)
