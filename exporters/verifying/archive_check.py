"""Reading an archive back and comparing everything with everything.

Nothing that the index says is believed: objects are hashed, ZIPs inflated by Python's own reader,
rows counted, hash files compared, and whatever follows from the entries is computed again. What
should be there is what the warehouse holds, what the index names and what the store lists.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.documents import shard_documents
from exporters.archive.entries import Entry
from exporters.archive.hash_lists import ENDING, SIGNATURES
from exporters.archive.index import ArchiveIndex, ShardSummary
from exporters.archive.lake_place import LAKE_PAGE
from exporters.archive.public_sql import PUBLIC_TYPES
from exporters.archive.revisions import REVISIONS
from exporters.archive.shards import Shard, shard_at, shard_blocks
from exporters.archive.sound_documents import chain_keys, sound_index
from exporters.archive.sums import completeness, total
from exporters.verifying.named_files import NamedFiles
from exporters.verifying.verify_documents import chain_findings, shard_findings
from exporters.verifying.verify_zip import zip_findings
from transforms.coverage import Coverage, difference, intersection, union
from transforms.objects import ObjectInfo
from transforms.tables.registry import HISTORY_TABLES
from transforms.verifying.findings import (
    LOAD,
    PUBLISH,
    Finding,
    Problem,
    Remedy,
    read_findings,
    tally,
)
from transforms.verifying.verification import Kind, Verification
from transforms.warehouse.checks.warehouse_check import Holding

_WORKERS = 4
_CUT_OTHERWISE = Remedy(
    (),
    "load from the source that was published, or publish to another archive: one was cut otherwise",
)
_OTHER_DOCUMENTS = (
    REVISIONS,
    LAKE_PAGE,
    *PUBLIC_TYPES,
    *(f"{name}{ENDING}" for name in SIGNATURES),
)
"""What may lie beside the documents that follow from shards."""


@dataclass(frozen=True)
class ArchiveCheck:
    """One check of one chain's archive.

    A quick check knows a shard by its summary in the index and by how its documents are listed; of
    one that it knows it looks at nothing else. What is named is added to `named`. `holding` is what
    its warehouse holds; without one, the archive is checked by itself. Each worker holds one ZIP in
    `scratch` at a time; in memory are the entries of one shard. Errors of the machine pass through.
    """

    archive: Archive
    verification: Verification
    named: NamedFiles
    scratch: Path | None = None
    holding: Holding | None = None

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong; nothing, if all is well."""
        archive, sound, facts = self.archive, list[int](), list[str]()
        try:
            index = sound_index(archive)
        except OSError:  # it is found where the documents are compared
            index = None
        shards = index.shards if index else {}
        sums = total(index.tables.values() if index else ())
        self.verification.expect(Kind.ZIPS, sums.zips, sums.bytes)
        infos = {info.key: info for info in archive.store.list(archive.key("index/"))}
        # Publishers remove shards that newer ones replaced.
        start = len(archive.key(""))
        self.named.add(key for key in infos if shard_at(key[start:]) is not None)
        for summary in shards.values():
            fact = self._fact(summary, infos)
            if self.verification.is_known(fact):
                continue
            if not (yield from tally(self._shard(summary, sound))):
                facts.append(fact)
        self.named.add([*chain_keys(archive), *map(archive.key, _OTHER_DOCUMENTS)])
        if index is not None and self.holding is not None:
            yield from self._segments(index, self.holding)
        # A summary in the index, which is part of a fact, is right if the index is.
        if not (yield from tally(chain_findings(archive, sound))):
            self.verification.proven.update(facts)

    def _fact(self, summary: ShardSummary, infos: Mapping[str, ObjectInfo]) -> str:
        """What is said of a shard without a look at it; its documents are named."""
        archive, number = self.archive, summary.number
        keys = [archive.key(summary.path)]
        keys += (document.key for document in shard_documents(archive, number, archive.shard))
        self.named.add(keys)
        listed = [(info.size, info.version) for info in map(infos.get, keys) if info]
        compared = [*map(str, intersection((shard_blocks(number),), self._comparable))]
        said = json.dumps([keys, listed, summary.row, compared])
        return f"{keys[0]} {hashlib.sha256(said.encode()).hexdigest()}"

    @cached_property
    def _comparable(self) -> Coverage:
        """The blocks whose ZIPs can be held against what was loaded."""
        volumes = self.holding.catalog.snapshot.history if self.holding else ()
        return union(volume.blocks for volume in volumes)

    def _shard(self, summary: ShardSummary, sound: list[int]) -> Iterator[Finding]:
        """Read a shard and its ZIPs."""
        archive, number, place = self.archive, summary.number, summary.path
        shards: list[Shard] = []

        def read() -> str:
            if archive.store.head(archive.key(place)) is None:
                raise FileNotFoundError(place)
            shards.append(archive.parse_shard(summary, archive.shard_bytes(summary)))
            return ""

        yield from read_findings(archive.place(place), read, PUBLISH)
        for shard in shards:
            self.named.add_zips(archive.key(entry.path) for entry in shard.entries)
            yield from self._zips(number, shard.entries)
            sound.append(number)
            yield from shard_findings(archive, shard)

    def _zips(self, number: int, entries: Sequence[Entry]) -> Iterator[Finding]:
        """Read ZIPs; each worker of the pool reads one at a time."""
        loaded = self.holding.catalog.receipts(shard_blocks(number)) if self.holding else ()
        receipts = {(r.table, r.blocks): r for r in loaded if r.table in HISTORY_TABLES}

        def check(entry: Entry) -> list[Finding]:
            receipt, quick = receipts.get((entry.table, entry.blocks)), self.verification.is_quick
            findings = zip_findings(self.archive, entry, receipt, self.scratch, only_hashes=quick)
            catalog = self.holding.catalog if self.holding and receipt is None else None
            if catalog and any(catalog.volumes_over(entry.blocks)):
                place = self.archive.place(entry.path)
                what = "the warehouse has its blocks, and no segment of just these"
                findings.append(Finding(Problem.DISAGREEMENT, place, what, _CUT_OTHERWISE))
            return findings

        with ThreadPoolExecutor(_WORKERS) as pool:
            for entry, findings in zip(entries, pool.map(check, entries), strict=True):
                self.verification.took(Kind.ZIPS, entry.bytes)
                yield from findings

    def _segments(self, index: ArchiveIndex, holding: Holding) -> Iterator[Finding]:
        """What is only in one of archive and warehouse, by the index, as runs of blocks."""
        place = self.archive.place("")
        complete = completeness(index.tables).complete
        for run in difference(union(volume.blocks for volume in holding.due), complete):
            what = f"blocks {run} are loaded, and not published with every table"
            yield Finding(Problem.NOT_PUBLISHED, place, what, PUBLISH)
        published = union(run for sums in index.tables.values() for run in sums.covered)
        for run in difference(published, holding.loaded):
            what = f"blocks {run} are published, and the warehouse does not hold them"
            remedy = Remedy(LOAD.commands, f"{LOAD.note}; until then the index alone proves these")
            yield Finding(Problem.NOT_LOADED, place, what, remedy)
