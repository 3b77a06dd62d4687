"""Reading an archive back and comparing everything with everything.

Nothing that the index says is believed: objects are hashed, ZIPs inflated by Python's own reader,
rows counted, hash files compared, and whatever follows from the entries is computed again. What
should be there is what the warehouse holds, what the index names and what the store lists.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.archive.shards import shard_blocks, shard_path
from exporters.archive.sound_documents import stored_shards
from exporters.verifying.expected import Expected, Named
from exporters.verifying.listing import StoreListing
from exporters.verifying.named_objects import NamedObjects
from exporters.verifying.unchanged_shards import ShardFacts, UnchangedShards
from exporters.verifying.verify_documents import DocumentsCheck, document_keys
from exporters.verifying.verify_zips import ZipsCheck
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.verifying.findings import (
    LOAD,
    PUBLISH,
    RESTORE,
    Finding,
    Problem,
    Remedy,
    run_sentences,
    unreadable,
)
from transforms.verifying.verification import Kind, Verification
from transforms.warehouse.manifests.receipts import Receipt

_WORKERS = 4


@dataclass
class ArchiveCheck:
    """One check of one chain's archive.

    Each worker holds one ZIP in `scratch` at a time; in memory are the entries of one shard.
    `can_publish` says that the warehouse is that of the chain, `with_store` includes the list of
    all chains, and their page. Errors of the machine pass through.
    """

    archive: Archive
    verification: Verification
    listing: StoreListing
    scratch: Path | None = None
    expected: Expected = field(default_factory=Expected)
    can_publish: bool = True
    with_store: bool = True
    _unpublished: dict[str, set[BlockRange]] = field(default_factory=dict)
    _not_loaded: set[BlockRange] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._remedy = PUBLISH if self.can_publish else RESTORE
        self._shards = UnchangedShards(self.archive, self.verification, self.listing, self.expected)
        self._documents = DocumentsCheck(self.archive, self.verification.counts, self._remedy)
        total = self.listing.count(self.archive.key(""), ".zip")
        objects = NamedObjects(self.archive.store, self.verification, self.listing)
        self._zips = ZipsCheck(self.archive, objects, self.scratch, self._remedy, total)

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong; nothing, if all is well."""
        indexed, stored = self._shards.summaries.keys(), set(stored_shards(self.archive))
        numbers = sorted({*stored, *indexed, *self.expected.numbers()})
        sound: list[int] = []
        unchanged: set[int] = set()
        with ThreadPoolExecutor(_WORKERS) as pool:
            for number in numbers:
                if self.verification.is_over():
                    return
                if number in stored and (facts := self._shards.find(number)) is not None:
                    unchanged.add(number)
                    yield from self._sampled(number, facts, pool)
                elif number in stored or number in indexed:
                    yield from self._shard(number, sound, pool)
                else:
                    receipts = self.expected.receipts(shard_blocks(number))
                    self._compare(receipts, (), is_sound=True)
        yield from self._segments(Problem.NOT_PUBLISHED)
        yield from self._segments(Problem.NOT_LOADED)
        # What follows from sound shards.
        yield from self._documents.of_all(sound, unchanged, with_store=self.with_store)
        self.listing.cross_off_shards(self.archive.chain_id, unchanged)
        self.listing.cross_off(document_keys(self.archive, numbers))

    def _sampled(
        self, number: int, facts: ShardFacts, pool: ThreadPoolExecutor
    ) -> Iterator[Finding]:
        """Count a shard that is as it was, and read the ZIPs of it that are chosen."""
        check, entries = self.verification, list[Entry]()
        kinds = [Kind.DOCUMENTS, Kind.HASH_FILES, Kind.PAGES]
        size = sum(check.chooses(Kind.ZIPS, self._zips.total) for _ in range(facts.zips))
        if size:
            kinds.remove(Kind.DOCUMENTS)
            entries, findings = self._entries(number)
            yield from findings
        for kind in kinds:
            check.counts.expect(kind, is_chosen=bool(facts.documents))
            check.counts.read(kind, 1 if facts.documents else 0)
        chosen = random.sample(entries, min(size, len(entries)))
        receipts: dict[Named, Receipt] = {}
        for entry in chosen:
            if not entry.is_bundle:
                receipts |= self.expected.receipts(entry.blocks)
        yield from self._zips.sampled(facts, chosen, receipts, pool)

    def _shard(self, number: int, sound: list[int], pool: ThreadPoolExecutor) -> Iterator[Finding]:
        receipts = dict(self.expected.receipts(shard_blocks(number)))
        entries, findings = self._entries(number)
        yield from findings
        is_sound = not findings
        if self._compare(receipts, entries, is_sound=is_sound) and is_sound:
            self._shards.add(number, entries)
        key, chain_id = self.archive.key, self.archive.chain_id
        self.listing.cross_off(key(f"{e.path}{end}") for e in entries for end in ("", ".sha256"))
        self.listing.cross_off([key(shard_path(number))])
        if not is_sound:  # what its ZIPs are, nobody says: none of them is a stranger
            self.listing.cross_off_shards(chain_id, [number])
        yield from self._zips.findings(entries, receipts, pool)
        if is_sound:
            sound.append(number)
            # Now, as the shard was just read: to read one takes as long as all else with it.
            yield from self._documents.of_shard(number)

    def _entries(self, number: int) -> tuple[list[Entry], list[Finding]]:
        """The entries of a shard; where it cannot be read none, and what is wrong."""
        counts, place = self.verification.counts, self.archive.place(shard_path(number))
        counts.expect(Kind.DOCUMENTS)
        problem = Problem.BAD_INDEX
        try:
            data = self.archive.read(shard_path(number))
            counts.read(Kind.DOCUMENTS, 0 if data is None else 1)
            if data is not None:
                return [*self.archive.parse_shard(number, data).entries], []
            what = "the index names it, and it is not there"
        except IntegrityError as error:
            what = str(error)
        except OSError as error:
            problem, what = Problem.UNREADABLE, unreadable(error, place)
        return [], [Finding(problem, place, what, self._remedy)]

    def _compare(
        self, receipts: Mapping[Named, Receipt], entries: Sequence[Entry], *, is_sound: bool
    ) -> bool:
        """Count what should be read, and note what is only in one of archive and warehouse.

        Returns whether that is nothing, also of what is not due yet.
        """
        counts, is_whole = self.verification.counts, not self.verification.is_quick
        singles = {(entry.table, entry.blocks) for entry in entries if not entry.is_bundle}
        absent = [key for key in receipts if key not in singles]
        lacking = [key for key in absent if self.expected.is_due(key[1])]
        counts.expect(Kind.ZIPS, len(lacking), is_chosen=is_whole)
        counts.expect(Kind.CSVS, len(lacking), is_chosen=is_whole)
        if is_sound:
            for table, blocks in lacking:
                self._unpublished.setdefault(table, set()).add(blocks)
        strange = {blocks for _, blocks in singles if not self.expected.is_loaded(blocks)}
        self._not_loaded |= strange
        return not (absent or strange)

    def _segments(self, problem: Problem) -> Iterator[Finding]:
        """What is only in one of archive and warehouse, as runs of blocks."""
        if problem is Problem.NOT_PUBLISHED:
            missing = set().union(*self._unpublished.values())
            remedy, where = PUBLISH, "loaded, and not published"
        else:
            missing, where = self._not_loaded, "published, and the warehouse does not hold them"
            remedy = Remedy(LOAD.commands, "until then the index alone proves these")
        for run, beginning in run_sentences(missing):
            tables = [t for t, gaps in self._unpublished.items() if any(map(run.overlaps, gaps))]
            suffix = f" ({', '.join(sorted(tables))})" if problem is Problem.NOT_PUBLISHED else ""
            what = f"{beginning} {where}{suffix}"
            yield Finding(problem, self.archive.place(""), what, remedy)
