"""Reading an archive back and comparing everything with everything.

Nothing that the index says is believed: objects are hashed, ZIPs inflated by Python's own reader,
rows counted, hash files compared, and whatever follows from the entries is computed again. What
should be there is what the warehouse holds, what the index names and what the store lists.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.archive.hash_lists import hash_line
from exporters.archive.index import ShardSummary
from exporters.archive.shards import shard_blocks, shard_number, shard_path
from exporters.archive.sound_documents import stored_shards
from exporters.verifying.listing import StoreListing
from exporters.verifying.verify_documents import DocumentsCheck, document_keys
from exporters.verifying.verify_zip import ZipReader
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.tables.registry import HISTORY_TABLES
from transforms.verifying.findings import (
    LOAD,
    PUBLISH,
    RESTORE,
    Finding,
    Problem,
    Remedy,
    read_findings,
    replace_zips,
    run_sentences,
)
from transforms.verifying.proofs import Proof
from transforms.verifying.verification import QUICK, Kind, Verification
from transforms.warehouse.checks.warehouse_check import Holding
from transforms.warehouse.manifests.receipts import Receipt

_WORKERS = 4
_DOCUMENTS = 3
"""Of a shard: itself, its hash list and its page."""

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
    listing: StoreListing
    scratch: Path | None = None
    holding: Holding | None = None
    _unpublished: dict[str, set[BlockRange]] = field(default_factory=dict)
    _not_loaded: set[BlockRange] = field(default_factory=set)

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong; nothing, if all is well."""
        stored = set(stored_shards(self.archive))
        numbers = sorted({*stored, *self._summaries, *self._loaded_shards})
        self.verification.expect(Kind.ZIPS, *self.listing.sizes(self.archive.key(""), ".zip"))
        chosen = self._sampled() if self.verification.is_quick else {}
        sound, unchanged = list[int](), set[int]()
        with ThreadPoolExecutor(_WORKERS) as pool:
            for number in numbers:
                if number not in stored and number not in self._summaries:
                    self._compare(self._receipts(number), ())
                elif number in stored and self.verification.is_unchanged(self._proof(number)):
                    unchanged.add(number)
                    if number in chosen:
                        yield from self._unchanged(number, chosen[number], pool)
                else:
                    yield from self._shard(number, chosen.get(number, ()), sound, pool)
        yield from self._segments()
        # What follows from sound shards.
        documents = DocumentsCheck(self.archive, self.verification, self._remedy)
        yield from documents.of_all(sound)
        self.listing.cross_off_shards(self.archive.chain_id, unchanged)
        self.listing.cross_off(document_keys(self.archive, numbers))

    @property
    def _remedy(self) -> Remedy:
        return RESTORE if self.holding is None else PUBLISH

    @cached_property
    def _summaries(self) -> Mapping[int, ShardSummary]:
        """What the index says of each shard; nothing where it is damaged, which is found later."""
        try:
            return self.archive.index().shards
        except (IntegrityError, OSError):
            return {}

    @cached_property
    def _loaded_shards(self) -> Collection[int]:
        return frozenset(map(shard_number, self.holding.segments if self.holding else ()))

    def _receipts(self, number: int) -> _Receipts:
        """What should be there of segments that begin in a shard."""
        if self.holding is None or number not in self._loaded_shards:
            return {}
        receipts = self.holding.receipts(shard_blocks(number))
        return {(r.table, r.blocks): r for r in receipts if r.table in HISTORY_TABLES}

    def _sampled(self) -> Mapping[int, Collection[str]]:
        """The ZIPs of all shards that a quick check reads: their paths by shard."""
        chosen: dict[int, set[str]] = {}
        for number, key in self.listing.sampled_zips(self.archive.chain_id, QUICK[Kind.ZIPS]):
            chosen.setdefault(number, set()).add(key.removeprefix(self.archive.key("")))
        return chosen

    def _proof(self, number: int) -> Proof:
        """A shard as listed, as the index has it, and the manifests that tell what is in it."""
        place, (_, state) = self.archive.place(shard_path(number)), self._listed(number)
        summary = self._summaries.get(number)
        catalog = self.holding.catalog if self.holding else None
        keys = [v.key for v in catalog.volumes_over(shard_blocks(number))] if catalog else []
        facts = "\n".join((json.dumps(summary.row) if summary else "", *keys))
        return Proof(place, state, hashlib.sha256(facts.encode()).hexdigest())

    def _listed(self, number: int) -> tuple[int, str]:
        return self.listing.shard_state(self.archive.chain_id, number)

    def _unchanged(
        self, number: int, paths: Collection[str], pool: ThreadPoolExecutor
    ) -> Iterator[Finding]:
        """Read the ZIPs of the sample that are in a shard which is as it was."""
        entries, findings = self._entries(number)
        yield from findings
        chosen = [entry for entry in entries if entry.path in paths]
        yield from self._zips(chosen, self._receipts(number), pool)

    def _shard(
        self, number: int, paths: Collection[str], sound: list[int], pool: ThreadPoolExecutor
    ) -> Iterator[Finding]:
        archive, receipts = self.archive, self._receipts(number)
        entries, findings = self._entries(number)
        yield from findings
        if findings:
            # What its ZIPs are, nobody says: none of them is a stranger.
            self.listing.cross_off_shards(archive.chain_id, [number])
            return
        is_as_loaded = self._compare(receipts, entries)
        count, _ = self._listed(number)
        # What is there besides may be too young to be a stranger: later checks must see it.
        if is_as_loaded and number in self._summaries and count == 2 * len(entries) + _DOCUMENTS:
            self.verification.found_sound(self._proof(number))
        if self.verification.is_quick:
            for entry in entries:
                if entry.path not in paths:
                    yield from self._present(entry)
        keys = (archive.key(f"{e.path}{end}") for e in entries for end in ("", ".sha256"))
        self.listing.cross_off([*keys, archive.key(shard_path(number))])
        is_quick = self.verification.is_quick
        chosen = [entry for entry in entries if not is_quick or entry.path in paths]
        yield from self._zips(chosen, receipts, pool)
        sound.append(number)
        # Now, as the shard was just read: to read one takes as long as all else with it.
        documents = DocumentsCheck(archive, self.verification, self._remedy)
        yield from documents.of_shard(number)

    def _entries(self, number: int) -> tuple[Sequence[Entry], list[Finding]]:
        """The entries of a shard; where it cannot be read none, and what is wrong."""
        entries: list[Entry] = []

        def read() -> str:
            data = self.archive.read(shard_path(number))
            if data is None:
                raise FileNotFoundError(shard_path(number))
            self.verification.took_document()
            entries.extend(self.archive.parse_shard(number, data).entries)
            return ""

        place = self.archive.place(shard_path(number))
        return entries, [*read_findings(place, read, self._remedy)]

    def _present(self, entry: Entry) -> Iterator[Finding]:
        """A ZIP that is not read is there, and its hash file."""
        key, again = self.archive.key(entry.path), replace_zips(entry.table, entry.blocks)
        for path, size in ((key, entry.bytes), (f"{key}.sha256", len(hash_line(entry)))):
            yield from self.listing.present(path, size, "the index", self._remedy, again)

    def _zips(
        self, entries: Sequence[Entry], receipts: _Receipts, pool: ThreadPoolExecutor
    ) -> Iterator[Finding]:
        """Read ZIPs; each worker of the pool reads one at a time."""
        is_quick = self.verification.is_quick
        reader = ZipReader(self.archive, self.scratch, self._remedy, only_hashes=is_quick)

        def check(entry: Entry) -> list[Finding]:
            of_segment = receipts.get((entry.table, entry.blocks))
            return reader.findings(entry, of_segment)

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
        lacking = [key for key in receipts if key not in singles]
        for table, blocks in lacking:
            if self.holding.is_due(blocks):
                self._unpublished.setdefault(table, set()).add(blocks)
        strange = {blocks for _, blocks in singles if not self.holding.is_loaded(blocks)}
        self._not_loaded |= strange
        return not (lacking or strange)

    def _segments(self) -> Iterator[Finding]:
        """What is only in one of archive and warehouse, as runs of blocks."""
        place = self.archive.place("")
        for run, beginning in run_sentences(set().union(*self._unpublished.values())):
            tables = [t for t, gaps in self._unpublished.items() if any(map(run.overlaps, gaps))]
            what = f"{beginning} loaded, and not published ({', '.join(sorted(tables))})"
            yield Finding(Problem.NOT_PUBLISHED, place, what, PUBLISH)
        for _, beginning in run_sentences(self._not_loaded):
            what = f"{beginning} published, and the warehouse does not hold them"
            remedy = Remedy(LOAD.commands, "until then the index alone proves these")
            yield Finding(Problem.NOT_LOADED, place, what, remedy)
