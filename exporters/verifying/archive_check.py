"""Reading an archive back and comparing everything with everything.

Nothing that the index says is believed: objects are hashed, ZIPs inflated by Python's own reader,
rows counted, hash files compared, and whatever follows from the entries is computed again. What
should be there is what the warehouse holds, what the index names and what the store lists.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from exporters.archive.archive import CHAINS, Archive
from exporters.archive.entries import Entry
from exporters.archive.index import ShardSummary
from exporters.archive.shards import SHARD_BLOCKS, shard_blocks, shard_number, shard_path
from exporters.archive.sound_documents import HOME, stored_shards
from exporters.verifying.record import Record
from exporters.verifying.verify_documents import chain_findings, document_keys, shard_findings
from exporters.verifying.verify_zip import ZipCheck
from transforms.block_range import BlockRange, contiguous_runs
from transforms.errors import IntegrityError
from transforms.stores.store import SCRATCH, Store
from transforms.tables.registry import HISTORY_TABLES
from transforms.verifying.findings import (
    LOAD,
    PUBLISH,
    Finding,
    Problem,
    Remedy,
    move_away,
    read_findings,
)
from transforms.verifying.verification import YOUNG_SECONDS, Kind, Verification
from transforms.warehouse.checks.warehouse_check import Holding
from transforms.warehouse.manifests.receipts import Receipt

_WORKERS = 4
_OF_SHARD = re.compile(
    r"[^/]+/[^/]+-(\d{1,19})-\d{1,19}\.zip(?:\.sha256)?"
    r"|index/(\d{1,19})\.(?:json|html|sha256)"
)

_Receipts = Mapping[tuple[str, BlockRange], Receipt]
"""What should be there, by table and blocks of a segment: of each one ZIP."""


@dataclass
class ArchiveCheck:
    """One check of one chain's archive.

    `holding` is what its warehouse holds; without one, the archive is checked by itself. Each
    worker holds one ZIP in `scratch` at a time; in memory are the entries of one shard. Errors of
    the machine pass through.
    """

    archive: Archive
    verification: Verification
    record: Record
    scratch: Path | None = None
    holding: Holding | None = None
    _unpublished: set[BlockRange] = field(default_factory=set)
    _not_loaded: set[BlockRange] = field(default_factory=set)

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong; nothing, if all is well."""
        archive, sound = self.archive, list[int]()
        self.verification.expect(Kind.ZIPS, *self.record.count(archive.key(""), ".zip"))
        published = {*stored_shards(archive), *self._summaries}
        numbers = sorted(published | self._loaded_shards)
        for number in numbers:
            if number in published:
                yield from self._shard(number, sound)
            else:
                self._compare(self._receipts(number), ())
        yield from self._segments()
        yield from chain_findings(archive, sound)
        self.record.name(document_keys(archive, numbers))

    @cached_property
    def _summaries(self) -> Mapping[int, ShardSummary]:
        """What the index says of each shard; nothing where it is damaged, which is found later."""
        try:
            return self.archive.index().shards
        except (IntegrityError, OSError):
            return {}

    @cached_property
    def _loaded_shards(self) -> frozenset[int]:
        return frozenset(map(shard_number, self.holding.segments if self.holding else ()))

    def _receipts(self, number: int) -> _Receipts:
        """What should be there of segments that begin in a shard."""
        if self.holding is None or number not in self._loaded_shards:
            return {}
        receipts = self.holding.receipts(shard_blocks(number))
        return {(r.table, r.blocks): r for r in receipts if r.table in HISTORY_TABLES}

    @cached_property
    def _changed(self) -> Collection[int]:
        """The shards of which anything is new, other or gone since the last sound check."""
        start = self.archive.key("")
        keys = (key.removeprefix(start) for key in self.record.changed() if key.startswith(start))
        matches = filter(None, map(_OF_SHARD.fullmatch, keys))
        return {int(match[1] or match[2]) // SHARD_BLOCKS for match in matches}

    def _fact(self, number: int) -> str:
        """What the index has of a shard, and which volumes tell what is in it."""
        summary = self._summaries.get(number)
        catalog = self.holding.catalog if self.holding else None
        keys = [v.key for v in catalog.volumes_over(shard_blocks(number))] if catalog else []
        facts = "\n".join((json.dumps(summary.row) if summary else "", *keys))
        place = self.archive.place(shard_path(number))
        return f"{place} {hashlib.sha256(facts.encode()).hexdigest()}"

    def _shard(self, number: int, sound: list[int]) -> Iterator[Finding]:
        """Read a shard and compare it, and its ZIPs where any of its files changed."""
        archive, check, fact = self.archive, self.verification, self._fact(number)
        is_changed = not check.is_quick or number in self._changed
        if check.is_known(fact) and not is_changed:
            return
        entries: list[Entry] = []
        read = partial(self._read, number, entries)
        findings = [*read_findings(archive.place(shard_path(number)), read, PUBLISH)]
        yield from findings
        if findings:  # what its ZIPs are, nobody says: none of them is a stranger
            for table in HISTORY_TABLES:
                self.record.name_all(archive.key(f"{table}/{archive.chain_id}-"))
            return
        receipts = self._receipts(number)
        if not self._compare(receipts, entries):
            check.seen.discard(fact)  # what is not due yet will be
        keys = (archive.key(f"{e.path}{end}") for e in entries for end in ("", ".sha256"))
        self.record.name([*keys, archive.key(shard_path(number))])
        if is_changed:
            yield from self._zips(entries, receipts)
        sound.append(number)
        # Now, as the shard was just read: to read one takes as long as all else with it.
        yield from shard_findings(archive, number)

    def _read(self, number: int, entries: list[Entry]) -> str:
        data = self.archive.read(shard_path(number))
        if data is None:
            raise FileNotFoundError(shard_path(number))
        entries += self.archive.parse_shard(number, data).entries
        return ""

    def _zips(self, entries: Sequence[Entry], receipts: _Receipts) -> Iterator[Finding]:
        """Read ZIPs; each worker of the pool reads one at a time."""
        hashes = self.verification.is_quick
        zip_check = ZipCheck(self.archive, self.scratch, only_hashes=hashes)

        def check(entry: Entry) -> list[Finding]:
            return [*zip_check.findings(entry, receipts.get((entry.table, entry.blocks)))]

        with ThreadPoolExecutor(_WORKERS) as pool:
            for entry, findings in zip(entries, pool.map(check, entries), strict=True):
                self.verification.took(Kind.ZIPS, entry.bytes)
                yield from findings

    def _compare(self, receipts: _Receipts, entries: Iterable[Entry]) -> bool:
        """Note what is only in one of archive and warehouse.

        Returns whether that is nothing, also of what is not due yet.
        """
        if self.holding is None:
            return True
        singles = {(entry.table, entry.blocks) for entry in entries}
        lacking = {blocks for table, blocks in receipts if (table, blocks) not in singles}
        self._unpublished |= set(filter(self.holding.is_due, lacking))
        strange = {blocks for _, blocks in singles if not self.holding.is_loaded(blocks)}
        self._not_loaded |= strange
        return not (lacking or strange)

    def _segments(self) -> Iterator[Finding]:
        """What is only in one of archive and warehouse, as runs of blocks."""
        place = self.archive.place("")
        for run in contiguous_runs(self._unpublished):
            what = f"blocks {run} are loaded, and not published with every table"
            yield Finding(Problem.NOT_PUBLISHED, place, what, PUBLISH)
        for run in contiguous_runs(self._not_loaded):
            what = f"blocks {run} are published, and the warehouse does not hold them"
            remedy = Remedy(LOAD.commands, "until then the index alone proves these")
            yield Finding(Problem.NOT_LOADED, place, what, remedy)


def stranger_findings(store: Store, record: Record, chains: Collection[str]) -> Iterator[Finding]:
    """Yield what nothing named.

    None is younger than an hour: a publisher at work may not have named it yet.
    """
    record.name((CHAINS, HOME))
    folders: Counter[str] = Counter()
    for info in record.strangers():
        top, slash, _ = info.key.partition("/")
        if top == SCRATCH or record.time - info.modified < YOUNG_SECONDS:
            continue
        if slash and top not in chains:
            folders[top] += 1
            continue
        place = store.describe(info.key)
        yield Finding(Problem.ORPHAN, place, "nothing in the archive names it", move_away(place))
    for folder, count in sorted(folders.items()):
        place = store.describe(folder)
        what = f"it is the folder of no chain of this archive, and holds {count} files"
        yield Finding(Problem.ORPHAN, place, what, move_away(place))
