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
    listing: StoreListing
    scratch: Path | None
    remedy: Remedy
    total: int

    def findings(
        self, entries: Sequence[Entry], receipts: Mapping[Named, Receipt], pool: ThreadPoolExecutor
    ) -> Iterator[Finding]:
        """Yield what is wrong with ZIPs; each worker of the pool reads one at a time."""
        chosen = []
        for entry in entries:
            is_chosen = self.verification.chooses(Kind.ZIPS, self.total)
            self._expect(ShardFacts.of([entry]), is_chosen=is_chosen)
            if is_chosen:
                chosen.append(entry)
            else:
                yield from self._present(entry)
        yield from self._chosen(chosen, receipts, pool)

    def sampled(
        self,
        facts: ShardFacts,
        chosen: Sequence[Entry],
        receipts: Mapping[Named, Receipt],
        pool: ThreadPoolExecutor,
    ) -> Iterator[Finding]:
        """Yield what is wrong with the chosen ones of a shard's ZIPs; count the others."""
        read = ShardFacts.of(chosen)
        self._expect(read, is_chosen=True)
        rest = (facts.zips - read.zips, facts.csvs - read.csvs, facts.bytes - read.bytes)
        self._expect(ShardFacts(*rest), is_chosen=False)
        yield from self._chosen(chosen, receipts, pool)

    def _expect(self, facts: ShardFacts, *, is_chosen: bool) -> None:
        counts, is_whole = self.verification.counts, not self.verification.is_quick
        counts.expect(Kind.ZIPS, facts.zips, is_chosen=is_chosen)
        counts.expect(Kind.HASH_FILES, facts.zips, is_chosen=is_chosen)
        counts.expect(Kind.CSVS, facts.csvs, is_chosen=is_whole)
        counts.expect(Kind.BYTES, facts.bytes, is_chosen=is_chosen)

    def _chosen(
        self, chosen: Sequence[Entry], receipts: Mapping[Named, Receipt], pool: ThreadPoolExecutor
    ) -> Iterator[Finding]:
        is_quick = self.verification.is_quick
        reader = ZipReader(self.archive, self.scratch, self.remedy, only_hashes=is_quick)

        def check(entry: Entry) -> ZipCheck | None:
            receipt = None if entry.is_bundle else receipts.get((entry.table, entry.blocks))
            return self._checked(reader, entry, receipt)

        counts = self.verification.counts
        for zip_check in filter(None, pool.map(check, chosen)):
            counts.read(Kind.ZIPS, zip_check.zips)
            counts.read(Kind.BYTES, zip_check.entry.bytes * zip_check.zips)
            counts.read(Kind.CSVS, zip_check.csvs)
            counts.read(Kind.HASH_FILES, zip_check.hash_files)
            count = counts[Kind.ZIPS]
            whole = count.chosen if is_quick else max(count.chosen, self.total)
            self.verification.progress(Kind.ZIPS, count.read, max(count.read, whole))
            yield from zip_check.findings

    def _checked(self, reader: ZipReader, entry: Entry, receipt: Receipt | None) -> ZipCheck | None:
        """Read a ZIP, unless the part of this check that was interrupted has proven it."""
        if self.verification.is_over():
            return None
        if self.verification.is_quick:
            return reader.check(entry, receipt)
        proven, key = self.verification.proven, self.archive.key(entry.path)
        infos = (listed_object(self.archive.store, self.listing, k) for k in (key, f"{key}.sha256"))
        versions = [info.version if info else "" for info in infos]
        # What it is held against: all that the index and the warehouse say of it.
        text = f"{entry!r} {receipt.sha256 if receipt else ''}"
        recorded = hashlib.sha256(text.encode()).hexdigest()
        proof = Proof(self.archive.place(entry.path), " ".join(versions), recorded)
        if all(versions) and proven.has(proof):
            return ZipCheck(entry, zips=1, csvs=len(entry.members), hash_files=1)
        check = reader.check(entry, receipt)
        if all(versions) and not check.findings:
            proven.keep(proof)
        return check

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
