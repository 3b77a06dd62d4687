"""The ZIPs of an archive: which are read, what was read of how much, what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.archive.hash_lists import hash_line
from exporters.verifying.expected import Named
from exporters.verifying.named_objects import NamedObject, NamedObjects
from exporters.verifying.unchanged_shards import ShardFacts
from exporters.verifying.verify_zip import ZipCheck, ZipReader
from transforms.verifying.findings import Finding, Remedy, replace_zips
from transforms.verifying.verification import Kind, Verification
from transforms.warehouse.manifests.receipts import Receipt


@dataclass(frozen=True, slots=True)
class ZipsCheck:
    """The check of one archive's ZIPs; `total` is how many there are, `remedy` for those gone."""

    archive: Archive
    objects: NamedObjects
    scratch: Path | None
    remedy: Remedy
    total: int

    @property
    def verification(self) -> Verification:
        """The check that this is a part of."""
        return self.objects.verification

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
        key = self.archive.key(entry.path)
        # What it is held against: all that the index and the warehouse say of it.
        facts = f"{entry!r} {receipt.sha256 if receipt else ''}"
        check = ZipCheck(entry, zips=1, csvs=len(entry.members), hash_files=1)

        def read() -> list[Finding]:
            nonlocal check
            check = reader.check(entry, receipt)
            return check.findings

        self.objects.unproven((key, f"{key}.sha256"), facts, read)
        return check

    def _present(self, entry: Entry) -> Iterator[Finding]:
        """A ZIP that is not read is there, and its hash file."""
        key, again = self.archive.key(entry.path), replace_zips(entry.table, entry.blocks)
        for path, size in ((key, entry.bytes), (f"{key}.sha256", len(hash_line(entry)))):
            item = NamedObject(path, size, "", "the index", self.remedy, again)
            yield from self.objects.present(item)
