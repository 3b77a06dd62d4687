"""The ZIPs of an archive: which are read, what was read of how much, what is wrong with them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.archive.hash_lists import hash_line
from exporters.verifying.expected import Named
from exporters.verifying.listing import StoreListing, listed_object
from exporters.verifying.unchanged_shards import ShardFacts
from exporters.verifying.verify_zip import ZipCheck, ZipReader
from transforms.verifying.findings import Finding, Problem, Remedy, replace_zips
from transforms.verifying.proofs import Proof
from transforms.verifying.verification import Kind, Verification
from transforms.warehouse.manifests.receipts import Receipt


@dataclass(frozen=True, slots=True)
class ZipsCheck:
    """The check of one archive's ZIPs; `total` is how many there are, `remedy` for those gone."""

    archive: Archive
    verification: Verification
    listing: StoreListing | None
    scratch: Path | None
    remedy: Remedy
    total: int

    def findings(
        self, entries: Sequence[Entry], receipts: Mapping[Named, Receipt], pool: ThreadPoolExecutor
    ) -> Iterator[Finding]:
        """Yield what is wrong with ZIPs; each worker of the pool reads one at a time."""
        chosen = []
        for entry in entries:
            is_chosen = self.verification.chooses(self.total)
            self._expect(entry, is_chosen=is_chosen)
            if is_chosen:
                chosen.append(entry)
            else:
                yield from self._present(entry)
        yield from self._chosen(chosen, receipts, pool)

    def sample_size(self, facts: ShardFacts) -> int:
        """How many ZIPs a sample takes of a shard, of which nothing else is read."""
        return sum(self.verification.chooses(self.total) for _ in range(facts.zips))

    def sampled(
        self,
        facts: ShardFacts,
        chosen: Sequence[Entry],
        receipts: Mapping[Named, Receipt],
        pool: ThreadPoolExecutor,
    ) -> Iterator[Finding]:
        """Yield what is wrong with the chosen ones of a shard's ZIPs; count the others."""
        counts = self.verification.counts
        for entry in chosen:
            self._expect(entry, is_chosen=True)
        others = facts.without(chosen)
        for kind, number in (
            (Kind.ZIPS, others.zips),
            (Kind.HASH_FILES, others.zips),
            (Kind.CSVS, others.csvs),
            (Kind.BYTES, others.bytes),
        ):
            counts.expect(kind, number, is_chosen=False)
        yield from self._chosen(chosen, receipts, pool)

    def _chosen(
        self, chosen: Sequence[Entry], receipts: Mapping[Named, Receipt], pool: ThreadPoolExecutor
    ) -> Iterator[Finding]:
        sampled = self.verification.is_quick
        reader = ZipReader(self.archive, self.scratch, self.remedy, only_hashes=sampled)

        def check(entry: Entry) -> ZipCheck | None:
            receipt = None if entry.is_bundle else receipts.get((entry.table, entry.blocks))
            return self._checked(reader, entry, receipt)

        for zip_check in pool.map(check, chosen):
            if zip_check is not None:
                self._read(zip_check)
                yield from zip_check.findings

    def _expect(self, entry: Entry, *, is_chosen: bool) -> None:
        counts, is_whole = self.verification.counts, not self.verification.is_quick
        counts.expect(Kind.ZIPS, is_chosen=is_chosen)
        counts.expect(Kind.BYTES, entry.bytes, is_chosen=is_chosen)
        counts.expect(Kind.CSVS, len(entry.members), is_chosen=is_whole)
        counts.expect(Kind.HASH_FILES, is_chosen=is_chosen)

    def _checked(self, reader: ZipReader, entry: Entry, receipt: Receipt | None) -> ZipCheck | None:
        """Read a ZIP, unless the part of this check that was interrupted has proven it."""
        if self.verification.is_over():
            return None
        if self.verification.is_quick:
            return reader.check(entry, receipt)
        proven, key = self.verification.proven, self.archive.key(entry.path)
        place, state = self.archive.place(entry.path), self._version(key)
        beside = self._version(f"{key}.sha256")
        # What it is held against: all that the index and the warehouse say of it.
        text = f"{entry!r} {receipt.sha256 if receipt else ''}"
        recorded = hashlib.sha256(text.encode()).hexdigest()
        is_known = bool(state and beside)
        if is_known and proven.find(place, f"{state} {beside}", recorded):
            return ZipCheck(entry)
        check = reader.check(entry, receipt)
        if is_known and not check.findings:
            proven.keep(Proof(place, f"{state} {beside}", recorded))
        return check

    def _read(self, check: ZipCheck) -> None:
        counts = self.verification.counts
        is_earlier = not (check.zips or check.findings)
        zips = 1 if is_earlier else check.zips
        counts.read(Kind.ZIPS, zips, is_earlier=is_earlier)
        counts.read(Kind.BYTES, check.entry.bytes * zips, is_earlier=is_earlier)
        csvs = len(check.entry.members) if is_earlier else check.csvs
        counts.read(Kind.CSVS, csvs, is_earlier=is_earlier)
        counts.read(Kind.HASH_FILES, 1 if is_earlier else check.hash_files, is_earlier=is_earlier)
        count = counts[Kind.ZIPS]
        zip_count = count.read + count.earlier
        self.verification.progress(Kind.ZIPS, zip_count, max(zip_count, self._whole(count.chosen)))

    def _whole(self, chosen: int) -> int:
        return chosen if self.verification.is_quick else max(chosen, self.total)

    def _present(self, entry: Entry) -> Iterator[Finding]:
        """What a sample leaves out is there, at least, with all its bytes, and its hash file."""
        for path, size in (
            (entry.path, entry.bytes),
            (f"{entry.path}.sha256", len(hash_line(entry))),
        ):
            info = listed_object(self.archive.store, self.listing, self.archive.key(path))
            place = self.archive.place(path)
            if info is None:
                what = "the index names it, and it is not there"
                yield Finding(Problem.MISSING, place, what, self.remedy)
            elif info.size != size:
                remedy = replace_zips(entry.table, entry.blocks)
                what = f"it has {info.size} bytes, not {size}"
                yield Finding(Problem.ALTERED, place, what, remedy)

    def _version(self, key: str) -> str:
        info = listed_object(self.archive.store, self.listing, key)
        return info.version if info else ""
