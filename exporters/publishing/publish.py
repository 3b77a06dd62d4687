"""Publishing: ZIPs first, then their hash files, then the index, then the pages.

Each step stands on the ones before it, so a publisher that dies leaves a smaller archive, never a
wrong one: at worst an object that no entry names yet, which the next run finds and adopts. Doing it
again changes nothing. Several publishers may work on one archive at once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import islice
from pathlib import Path

from exporters.archive.archive import Archive, update
from exporters.archive.documents import refresh
from exporters.archive.entries import Entry
from exporters.archive.shards import Shard, shard_number, shard_path
from exporters.publishing.replace import Correction, replace_object
from exporters.publishing.request import PublishRequest, proven_entry
from transforms.errors import ConflictError, IntegrityError
from transforms.stores.store import LostRaceError, PutResult

_BATCH = 3_000  # requests between two writes of the index: it bounds what is held in memory
ZIP_TYPE = "application/zip"


class Outcome(Enum):
    """What became of one ZIP."""

    CREATED = "created"
    IDENTICAL = "identical"
    REPLACED = "replaced"
    CONFLICT = "conflict"
    """Other bytes stand in its place."""
    DAMAGED = "damaged"
    """Its own file is not what its request says."""


_FAILURES = (Outcome.CONFLICT, Outcome.DAMAGED)


@dataclass(frozen=True, slots=True)
class Published:
    """One ZIP after the attempt: its name, its entry unless it failed, and then why."""

    name: str
    outcome: Outcome
    entry: Entry | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PublishReport:
    """What became of all of them. `bytes` counts the ZIPs that were written."""

    created: int = 0
    identical: int = 0
    replaced: int = 0
    failed: tuple[Published, ...] = ()
    bytes: int = 0

    def including(self, done: Sequence[Published]) -> PublishReport:
        """The report with more ZIPs counted in."""
        count = [one.outcome for one in done].count
        written = (Outcome.CREATED, Outcome.REPLACED)
        return PublishReport(
            self.created + count(Outcome.CREATED),
            self.identical + count(Outcome.IDENTICAL),
            self.replaced + count(Outcome.REPLACED),
            (*self.failed, *(one for one in done if one.outcome in _FAILURES)),
            self.bytes + sum(p.entry.bytes for p in done if p.entry and p.outcome in written),
        )

    @property
    def damaged(self) -> dict[str, str]:
        """The reasons of the ZIPs whose own files are not what their requests say, by name."""
        return {one.name: one.reason for one in self.failed if one.outcome is Outcome.DAMAGED}

    def after(self, second: PublishReport) -> PublishReport:
        """The report of both attempts, the second being at the ZIPs damaged in this one."""
        kept = (one for one in self.failed if one.outcome is not Outcome.DAMAGED)
        return PublishReport(
            self.created + second.created,
            self.identical + second.identical,
            self.replaced + second.replaced,
            (*kept, *second.failed),
            self.bytes + second.bytes,
        )


def publish_zips(
    archive: Archive,
    requests: Iterable[PublishRequest],
    workers: int = 8,
    *,
    correction: Correction | None = None,
    scratch: Path | None = None,
) -> PublishReport:
    """Publish ZIPs and describe them in the index; see the module for what a crash leaves.

    A ZIP that contradicts its request, or in whose place other bytes stand, counts as failed; the
    rest goes on. With a `correction` such bytes are replaced, one ZIP after the other, so that the
    ledger has the order of the requests. `scratch` is where layouts are put together. Errors of the
    machine end the run as they are: run it again.
    """
    report = PublishReport()
    pending = iter(requests)
    put = partial(_publish_one, archive, correction, scratch)
    while batch := list(islice(pending, _BATCH)):
        with ThreadPoolExecutor(1 if correction else workers) as pool:
            done = list(pool.map(put, batch))
        add_to_index(archive, [one.entry for one in done if one.entry])
        report = report.including(done)
    return report


def add_to_index(archive: Archive, entries: Sequence[Entry]) -> None:
    """Describe ZIPs that are in place, and bring everything up to date that follows from it."""
    shards: dict[int, list[Entry]] = {}
    for entry in entries:
        shards.setdefault(shard_number(entry.blocks), []).append(entry)
    for number, fresh in sorted(shards.items()):
        change = partial(_with_entries, archive, number, fresh)
        update(archive.store, archive.key(shard_path(number)), change, "application/json")
    if shards:
        refresh(archive, shards)


def _with_entries(
    archive: Archive, number: int, fresh: Sequence[Entry], old: bytes | None
) -> bytes:
    if old is None:
        return Shard(archive.chain_id, number, tuple(fresh)).to_bytes()
    shard = Shard.parse(old, archive.place(shard_path(number)))
    grown = shard.including(fresh)
    return old if grown == shard else grown.to_bytes()


def _publish_one(
    archive: Archive, correction: Correction | None, scratch: Path | None, request: PublishRequest
) -> Published:
    try:
        if isinstance(request.content, Path):
            return _publish_file(archive, correction, request, request.content)
        with tempfile.TemporaryDirectory(prefix="strata-", dir=scratch) as folder:
            zip_file = Path(folder) / request.name
            request.content.write(zip_file, durable=False)
            return _publish_file(archive, correction, request, zip_file)
    except ConflictError as error:
        return Published(request.name, Outcome.CONFLICT, reason=str(error))
    except IntegrityError as error:
        return Published(request.name, Outcome.DAMAGED, reason=str(error))


def _publish_file(
    archive: Archive, correction: Correction | None, request: PublishRequest, zip_file: Path
) -> Published:
    entry = proven_entry(request, archive.chain_id, zip_file)
    try:
        result = archive.store.put_if_absent(
            archive.key(entry.path),
            zip_file,
            content_type=ZIP_TYPE,
            sha256=entry.sha256,
            immutable=True,
        )
        outcome = Outcome.CREATED if result is PutResult.CREATED else Outcome.IDENTICAL
    except ConflictError:
        if correction is None:
            raise
        replace_object(archive, entry, zip_file, correction)
        outcome = Outcome.REPLACED
    _put_hash_file(archive, entry)
    return Published(request.name, outcome, entry)


def _put_hash_file(archive: Archive, entry: Entry) -> None:
    key, content = archive.key(f"{entry.path}.sha256"), hash_line(entry)
    try:
        archive.store.put_if_match(key, content, None, "text/plain; charset=utf-8")
    except LostRaceError:
        # There is one already: the same, or that of a file which has been replaced.
        update(archive.store, key, lambda _: content, "text/plain; charset=utf-8")


def hash_line(entry: Entry) -> bytes:
    """The content of the hash file beside a ZIP, as `sha256sum` writes it."""
    return f"{entry.sha256}  {entry.path.rpartition('/')[2]}\n".encode()
