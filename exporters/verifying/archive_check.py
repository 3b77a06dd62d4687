"""Reading an archive back and comparing everything with everything.

Nothing that the index says is believed: objects are hashed, ZIPs inflated by Python's own reader,
rows counted, hash files compared, and whatever follows from the entries is computed again. What
should be there is what the warehouse holds, what the index names and what the store lists.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.documents import shard_documents
from exporters.archive.entries import Entry
from exporters.archive.hash_lists import ENDING, SIGNATURES
from exporters.archive.index import ArchiveIndex, ShardSummary
from exporters.archive.public_sql import PUBLIC_DATABASE, PUBLIC_SQL
from exporters.archive.revisions import REVISIONS
from exporters.archive.shards import shard_blocks, shard_path
from exporters.archive.sound_documents import chain_keys, sound_index, stored_shards
from exporters.archive.sums import completeness
from exporters.verifying.listing import Listing, ShardFiles
from exporters.verifying.verify_documents import chain_findings, shard_findings
from exporters.verifying.verify_zip import zip_findings
from transforms.coverage import difference, union
from transforms.stores.store import Store
from transforms.tables.registry import HISTORY_TABLES
from transforms.verifying.findings import (
    LOAD,
    PUBLISH,
    Finding,
    Problem,
    Remedy,
    move_away,
    present,
    read_findings,
)
from transforms.verifying.verification import Kind, Verification
from transforms.warehouse.checks.warehouse_check import Holding

_WORKERS = 4
_CUT_OTHERWISE = Remedy(
    (),
    "load from the source that was published, or publish to another archive: one was cut otherwise",
)
_OTHER_DOCUMENTS = (
    *(REVISIONS, PUBLIC_SQL, PUBLIC_DATABASE),
    *(f"{name}{ENDING}" for name in SIGNATURES),
)
"""What may lie beside the documents that follow from shards."""


@dataclass(frozen=True)
class ArchiveCheck:
    """One check of one chain's archive.

    `holding` is what its warehouse holds; without one, the archive is checked by itself. Each
    worker holds one ZIP in `scratch` at a time; in memory are the entries of one shard. Errors of
    the machine pass through.
    """

    archive: Archive
    verification: Verification
    listing: Listing
    scratch: Path | None = None
    holding: Holding | None = None

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong; nothing, if all is well."""
        archive, sound = self.archive, list[int]()
        for files in self.listing.of_chain(archive.chain_id):
            self.verification.expect(Kind.ZIPS, files.zips, files.bytes)
        try:
            index = sound_index(archive)
        except OSError:  # it is found where the documents are compared
            index = None
        shards = index.shards if index else {}
        numbers = sorted({*stored_shards(archive), *shards})
        for number in numbers:
            yield from self._shard(number, shards.get(number), sound)
        if index is not None and self.holding is not None:
            yield from self._segments(index, self.holding)
        yield from chain_findings(archive, sound)
        self.listing.name([*chain_keys(archive), *map(archive.key, _OTHER_DOCUMENTS)])

    def _shard(
        self, number: int, summary: ShardSummary | None, sound: list[int]
    ) -> Iterator[Finding]:
        """Read a shard and its ZIPs, unless index and listing say what they said before."""
        archive, check, place = self.archive, self.verification, shard_path(number)
        files = self.listing.shards.pop((archive.chain_id, number), ShardFiles())
        said = json.dumps([summary.row if summary else None, files.digest])
        fact = f"{archive.place(place)} {hashlib.sha256(said.encode()).hexdigest()}"
        if check.is_known(fact):
            return
        entries: list[Entry] = []

        def read() -> str:
            data = present(archive.read(place), place)
            entries.extend(archive.parse_shard(number, data).entries)
            return ""

        findings = read_findings(archive.place(place), read, PUBLISH)
        yield from findings
        if findings:  # what its ZIPs are, nobody says: none of them is a stranger
            return
        keys = {archive.key(f"{e.path}{end}") for e in entries for end in ("", ".sha256")}
        keys |= {archive.key(place), *(each.key for each in shard_documents(archive, number))}
        if files.count > len(keys):
            files.named = keys
            self.listing.shards[archive.chain_id, number] = files
        if files.count != len(keys):  # a later check must look at what nothing names yet
            check.seen.discard(fact)
        yield from self._zips(number, entries)
        sound.append(number)
        # Now, as the shard was just read: to read one takes as long as all else with it.
        yield from shard_findings(archive, number)

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
            remedy = Remedy(LOAD.commands, "until then the index alone proves these")
            yield Finding(Problem.NOT_LOADED, place, what, remedy)


def stranger_findings(store: Store, listing: Listing) -> Iterator[Finding]:
    """Yield what nothing named."""
    for info in listing.strangers():
        place = store.describe(info.key)
        yield Finding(Problem.ORPHAN, place, "nothing in the archive names it", move_away(place))
    for folder, count in sorted(listing.folders.items()):
        if count:
            place = store.describe(folder)
            what = f"it is the folder of no chain of this archive, and holds {count} files"
            yield Finding(Problem.ORPHAN, place, what, move_away(place))
