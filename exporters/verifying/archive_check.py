"""Reading an archive back and comparing everything with everything.

Nothing that the index says is believed: objects are hashed, ZIPs inflated by Python's own reader,
rows counted, hash files compared, and whatever follows from the entries is computed again. What
should be there is what the warehouse holds, what the index names and what the store lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.archive.shards import Shard, shard_blocks, shard_path
from exporters.archive.sound_documents import stored_shards
from exporters.verifying.expected import Expected, Named
from exporters.verifying.listing import StoreListing
from exporters.verifying.unchanged_shards import ShardFacts, UnchangedShards
from exporters.verifying.verify_documents import document_findings, document_keys, shard_findings
from exporters.verifying.verify_zips import ZipsCheck
from transforms.block_range import BlockRange
from transforms.errors import ConfigError, IntegrityError
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
    `listing` is None where only a part is checked. `can_publish` says that the warehouse is that of
    the chain. Errors of the machine pass through.
    """

    archive: Archive
    verification: Verification
    listing: StoreListing | None = None
    scratch: Path | None = None
    expected: Expected = field(default_factory=Expected)
    can_publish: bool = True
    with_store: bool = True
    _shards: UnchangedShards = field(init=False)
    _unpublished: dict[str, set[BlockRange]] = field(default_factory=dict)
    _not_loaded: set[BlockRange] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._shards = UnchangedShards(self.archive, self.verification, self.listing, self.expected)

    @property
    def _remedy(self) -> Remedy:
        return PUBLISH if self.can_publish else RESTORE

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong; nothing, if all is well."""
        indexed = self._shards.lines.keys()
        stored = self._stored()
        numbers = sorted({*stored, *indexed, *self.expected.numbers()})
        zips = ZipsCheck(
            self.archive,
            self.verification,
            self.listing,
            self.scratch,
            self._remedy,
            self._count(),
        )
        sound: list[int] = []
        unchanged: set[int] = set()
        with ThreadPoolExecutor(_WORKERS) as pool:
            for number in filter(self._is_wanted, numbers):
                if self.verification.is_over():
                    return
                is_named = number in stored or number in indexed
                if number in stored and (facts := self._shards.find(number)) is not None:
                    unchanged.add(number)
                    yield from self._sampled(number, facts, zips, pool)
                    continue
                yield from self._shard(number, sound, zips, pool, is_named=is_named)
        yield from self._segments(Problem.NOT_PUBLISHED)
        yield from self._segments(Problem.NOT_LOADED)
        # What follows from sound shards.
        counts, with_store = self.verification.counts, self.with_store
        yield from document_findings(
            self.archive, sound, unchanged, counts, self._remedy, with_store=with_store
        )
        if self.listing is not None:
            self.listing.cross_off_shards(self.archive.chain_id, unchanged)
            self.listing.cross_off(document_keys(self.archive, numbers))

    def _stored(self) -> set[int]:
        """The shards that are there, whatever the index says."""
        try:
            return set(stored_shards(self.archive))
        except ConfigError:
            return set()

    def _count(self) -> int:
        """How many ZIPs there are, for the progress and a sample: as many as are listed."""
        if self.listing is not None:
            return self.listing.count(self.archive.key(""), ".zip")
        try:
            sums = self.archive.index().tables.values()
        except (IntegrityError, OSError):
            return 0
        return sum(table.zips + table.bundles for table in sums)

    def _is_wanted(self, number: int) -> bool:
        """Whether a shard can have ZIPs of the blocks in question: a bundle may reach far."""
        blocks = self.verification.scope.blocks
        return blocks is None or shard_blocks(number).first <= blocks.last

    def _sampled(
        self, number: int, facts: ShardFacts, zips: ZipsCheck, pool: ThreadPoolExecutor
    ) -> Iterator[Finding]:
        """Count a shard that is as it was, and read the ZIPs of it that are chosen."""
        counts, entries = self.verification.counts, list[Entry]()
        kinds = [Kind.DOCUMENTS, Kind.HASH_FILES, Kind.PAGES]
        size = zips.sample_size(facts)
        if size:
            kinds.remove(Kind.DOCUMENTS)
            entries, findings = self._entries(number)
            yield from findings
        for kind in kinds:
            counts.expect(kind, is_chosen=bool(facts.documents))
            counts.read(kind, 1 if facts.documents else 0)
        chosen = self.verification.sample(entries, min(size, len(entries)))
        receipts: dict[Named, Receipt] = {}
        for entry in chosen:
            if not entry.is_bundle:
                receipts |= self.expected.receipts(entry.blocks)
        yield from zips.sampled(facts, chosen, receipts, pool)

    def _shard(
        self,
        number: int,
        sound: list[int],
        zips: ZipsCheck,
        pool: ThreadPoolExecutor,
        *,
        is_named: bool,
    ) -> Iterator[Finding]:
        receipts = dict(self.expected.receipts(shard_blocks(number)))
        entries, findings = self._entries(number) if is_named else ([], [])
        yield from findings
        if is_named and not findings:
            sound.append(number)
        is_sound = not findings
        if self._compare(receipts, entries, is_sound=is_sound) and is_named and is_sound:
            self._shards.add(number, entries)
        self._cross_off(number, entries, is_sound=is_sound)
        yield from zips.findings(entries, receipts, pool)
        if is_named and is_sound:
            # Now, as the shard was just read: to read one takes as long as all else with it.
            yield from shard_findings(self.archive, number, self.verification.counts, self._remedy)

    def _entries(self, number: int) -> tuple[list[Entry], list[Finding]]:
        """The entries of a shard in scope; where it cannot be read none, and what is wrong."""
        counts, place = self.verification.counts, self.archive.place(shard_path(number))
        counts.expect(Kind.DOCUMENTS)
        try:
            data = self.archive.read(shard_path(number))
            counts.read(Kind.DOCUMENTS, 0 if data is None else 1)
            if data is None:
                what = "the index names it, and it is not there"
                return [], [Finding(Problem.BAD_INDEX, place, what, self._remedy)]
            return self._in_scope(self.archive.parse_shard(number, data)), []
        except IntegrityError as error:
            return [], [Finding(Problem.BAD_INDEX, place, str(error), self._remedy)]
        except OSError as error:
            what = unreadable(error, place)
            return [], [Finding(Problem.UNREADABLE, place, what, self._remedy)]

    def _in_scope(self, shard: Shard) -> list[Entry]:
        scope = self.verification.scope
        return [e for e in shard.entries if scope.has_table(e.table) and scope.reaches(e.blocks)]

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

    def _cross_off(self, number: int, entries: Sequence[Entry], *, is_sound: bool) -> None:
        if self.listing is None:
            return
        key = self.archive.key
        endings = ("", ".sha256")
        self.listing.cross_off(key(f"{entry.path}{end}") for entry in entries for end in endings)
        self.listing.cross_off([key(shard_path(number))])
        if not is_sound:  # what its ZIPs are, nobody says: none of them is a stranger
            self.listing.cross_off_shards(self.archive.chain_id, [number])

    def _segments(self, problem: Problem) -> Iterator[Finding]:
        """What is only in one of archive and warehouse, as runs of blocks."""
        if problem is Problem.NOT_PUBLISHED:
            missing = set().union(*self._unpublished.values())
            remedy, where = PUBLISH, "loaded, and not published"
        else:
            missing = self._not_loaded
            remedy = Remedy(LOAD.commands, "or check other --blocks: the index alone proves these")
            where = "published, and the warehouse does not hold them"
        for run, beginning in run_sentences(missing):
            tables = [t for t, gaps in self._unpublished.items() if any(map(run.overlaps, gaps))]
            suffix = f" ({', '.join(sorted(tables))})" if problem is Problem.NOT_PUBLISHED else ""
            what = f"{beginning} {where}{suffix}"
            yield Finding(problem, self.archive.place(""), what, remedy)
