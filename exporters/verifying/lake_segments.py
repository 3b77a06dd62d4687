"""The segments of the lake against those of the published ZIPs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.entries import Csv
from exporters.archive.lake_place import LAKE, MANIFESTS
from exporters.archive.shards import SHARD_BLOCKS, shard_blocks, shard_path
from exporters.archive.sound_documents import sound_index
from exporters.archive.sums import completeness
from exporters.verifying.expected import Expected, Named
from transforms.block_range import BlockRange
from transforms.coverage import Coverage, difference, inside, intersection, union
from transforms.errors import IntegrityError
from transforms.verifying.findings import (
    LAKE_PUBLISH,
    LOAD_AND_PUBLISH,
    PUBLISH,
    RESTORE,
    Finding,
    Problem,
    Remedy,
    run_sentences,
)
from transforms.verifying.verification import Verification
from transforms.warehouse.manifests.manifest import manifest_receipts
from transforms.warehouse.manifests.receipts import Receipt


@dataclass(slots=True)
class SegmentsCheck:
    """What is only in one of the lake and the published ZIPs, and what both say differently.

    `coverage` is that of each table of history, and of the manifests, whose log is not damaged.
    `manifests` are sound ones by their blocks; None where only logs are read. In memory are the
    entries of one shard at a time.
    """

    archive: Archive
    verification: Verification
    expected: Expected
    can_publish: bool
    coverage: Mapping[str, Coverage]
    manifests: Mapping[BlockRange, Path] | None
    _with_rows: dict[str, Coverage] = field(default_factory=dict)

    def findings(self, lacking_now: Callable[[str, Coverage], Coverage]) -> Iterator[Finding]:
        """Compare; what the lake lacks may be under way, so it is asked for again in the end."""
        tables = sound_index(self.archive).tables
        published = completeness(tables).complete
        present = self.coverage.get(MANIFESTS, ())
        for volume in self.expected.volumes():
            if any(inside([volume.blocks], published)):
                self._add_rows(volume.data, [volume.blocks])
        for table, sums in tables.items():
            if sums.rows and self.coverage.get(table) == ():  # the whole table is gone
                self._add_rows([table], sums.covered)
        yield from self._compared(present)
        wanted = {MANIFESTS: published} | {
            table: intersection(runs, published) for table, runs in self._with_rows.items()
        }
        lacking = {
            table: difference(runs, self.coverage[table])
            for table, runs in wanted.items()
            if table in self.coverage
        }
        unsettled = self.expected.unsettled
        still = {t: lacking_now(t, difference(runs, unsettled)) for t, runs in lacking.items()}
        yield from self._not_in_lake({table: runs for table, runs in still.items() if runs})
        # That of a loaded segment is missed elsewhere.
        known = union((*published, *self.expected.loaded))
        yield from self._not_published(difference(present, known))

    def _add_rows(self, tables: Iterable[str], blocks: Sequence[BlockRange]) -> None:
        for table in tables:
            self._with_rows[table] = union((*self._with_rows.get(table, ()), *blocks))

    def _compared(self, present: Coverage) -> Iterator[Finding]:
        """Hold the receipts of each shard against its ZIPs, and note in what there are rows."""
        numbers = {
            number
            for run in present
            for number in range(run.first // SHARD_BLOCKS, run.last // SHARD_BLOCKS + 1)
        }
        for number in sorted(numbers):
            if self.manifests is None or self.verification.is_over():
                return
            blocks = shard_blocks(number)
            files = [path for own, path in self.manifests.items() if own.overlaps(blocks)]
            receipts = manifest_receipts(files, blocks)
            zips = self._zips(number)
            rows: dict[str, list[BlockRange]] = {}
            for receipt in receipts:
                if receipt.rows:
                    rows.setdefault(receipt.table, []).append(receipt.blocks)
                csv = zips.get((receipt.table, receipt.blocks))
                if csv and csv.sha256 != receipt.sha256:
                    yield self._disagreement(receipt, csv)
            for table, runs in rows.items():
                self._add_rows([table], runs)

    def _zips(self, number: int) -> Mapping[Named, Csv]:
        """The single CSVs of a shard; none where it is damaged, which is found elsewhere."""
        try:
            data = self.archive.read(shard_path(number))
            entries = self.archive.parse_shard(number, data).entries if data else ()
        except (IntegrityError, OSError):
            return {}
        return {(e.table, e.blocks): e.members[0] for e in entries if not e.is_bundle}

    def _disagreement(self, receipt: Receipt, csv: Csv) -> Finding:
        table, blocks = receipt.table, receipt.blocks
        remedy = LAKE_PUBLISH if self.can_publish else RESTORE
        return Finding(
            Problem.DISAGREEMENT,
            self.archive.place(f"{LAKE}/{MANIFESTS}"),
            f"table {table} of segment {blocks} has SHA-256 {receipt.sha256} here, and "
            f"{csv.sha256} in its published ZIP",
            Remedy(remedy.commands, remedy.note or "if warehouse and ZIP are right"),
        )

    def _not_in_lake(self, lacking: Mapping[str, Coverage]) -> Iterator[Finding]:
        remedy = LAKE_PUBLISH if self.can_publish else RESTORE
        for run, where in run_sentences(union(r for runs in lacking.values() for r in runs)):
            tables = sorted(t for t, runs in lacking.items() if any(map(run.overlaps, runs)))
            names = "any table" if len(tables) == len(lacking) > 1 else ", ".join(tables)
            what = f"{where} published, and not in the lake ({names})"
            yield Finding(Problem.NOT_PUBLISHED, self.archive.place(LAKE), what, remedy)

    def _not_published(self, runs: Coverage) -> Iterator[Finding]:
        remedy = RESTORE
        if self.can_publish:
            remedy = LOAD_AND_PUBLISH if self.expected.numbers() else PUBLISH
        for _, where in run_sentences(runs):
            what = f"{where} in the lake, and not published as ZIPs"
            yield Finding(Problem.NOT_PUBLISHED, self.archive.place(LAKE), what, remedy)
