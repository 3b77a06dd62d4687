"""Finding sound copies of the parts that an export needs (spec 4.1).

The published ZIPs of its segments are taken, and for segments that have no sound one the part that
waits to be published, or one that is rendered now. A copy that is found damaged or
missing is named in a warning and another is taken; one that goes bad later ends the download.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from exporters.archive.csv_columns import CsvColumns, digests
from exporters.exports.copies import DamagedCopyError, Warn
from exporters.exports.plan import ExportPlan, HeldColumns, Span
from exporters.exports.published_zips import PublishedCopy, ZipProver, published_columns
from exporters.exports.splice import layout_spans
from exporters.exports.staged_zips import render_part, staged_part
from exporters.zip_names import NameStyle
from exporters.zips.layout import Layout
from exporters.zips.parts import PartColumns, PartRef
from exporters.zips.sources import ByteSource
from exporters.zips.staging import PartStage
from transforms.block_range import BlockRange, BlockRanges
from transforms.collector import collector_paused
from transforms.errors import IntegrityError, RangeError
from transforms.tables.registry import TableSchema
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.manifest_rows import (
    parse_columns,
    parse_receipts,
    rows_over,
)
from transforms.warehouse.manifests.receipts import Receipt

_log = logging.getLogger(__name__)

# Opening a copy to prove it takes about as long as reading so many bytes of it.
_OPENING_BYTES = 32 * 1024
_READERS = 8
_CHUNK = 32


@dataclass(slots=True)
class PartSearch:
    """The search for the parts of segments with these `receipts` of one table, which ascend.

    They are published, wait in `stage`, or are rendered for exports, of which `rendered_bytes` are
    kept; `memory_limit` bounds the DuckDB that renders one. `warn` gets each damage once; `check`
    is called now and then, and raises where nobody waits any more; `progress` gets the bytes of
    ZIPs just proven.
    """

    prover: ZipProver
    stage: PartStage
    rendered: PartStage
    scratch: Path
    rendered_bytes: int
    memory_limit: str
    catalog: Catalog
    receipts: pa.Table
    warn: Warn
    check: Callable[[], object]
    progress: Callable[[int], object]
    _damaged: set[str] = field(default_factory=set)
    _made_room: bool = False

    def lay_out(self, plan: ExportPlan, style: NameStyle, prove_bytes: int | None) -> Layout:
        """The ZIP of a plan from sound copies.

        Those of the first `prove_bytes` bytes (None: all) are proven now, the others before their
        first byte is read. Raises `IntegrityError` where a part is sound nowhere.
        """
        published = self._published(plan)
        while True:
            rows = self._fitting(published)
            parts_by_span = [self._parts(span, published, rows) for span in plan.spans]
            sources = (source for parts in parts_by_span for source in parts.sources)
            if self._are_sound(sources, prove_bytes):
                break
        with collector_paused():
            return layout_spans(plan, parts_by_span, style)

    def _published(self, plan: ExportPlan) -> CsvColumns:
        """The published CSVs beside a range; none where the archive cannot be reached."""
        try:
            return self.prover.archive.csvs_inside(
                plan.table, plan.blocks, lambda error: self._note(str(error), error)
            )
        except ConnectionError as error:
            _log.warning("no published ZIPs are used, rows come from the warehouse: %s", error)
            return CsvColumns(plan.table)

    def _parts(
        self, span: Span, published: CsvColumns, rows: Mapping[tuple[int, int], int]
    ) -> PartColumns:
        """The parts of a span: where none of `rows` has a segment's published CSV, a local one."""
        self.check()
        parts = PartColumns()
        firsts, lasts = span.segments.firsts, span.segments.lasts
        found = map(rows.get, zip(firsts, lasts, strict=True))
        for is_local, pairs in groupby(enumerate(found), lambda pair: pair[1] is None):
            if is_local:
                local = (self._local(span.segments[number]) for number, _ in pairs)
                parts.extend(PartColumns.of(local))
            else:
                with collector_paused():
                    chosen = [row for _, row in pairs if row is not None]
                    parts.extend(published_columns(published, chosen, self.prover))
        return parts

    def _fitting(self, csvs: CsvColumns) -> dict[tuple[int, int], int]:
        """The rows of CSVs that are what is loaded, and not damaged, by their blocks.

        A segment that was loaded anew may have another text than the one that was published.
        """
        columns = (self.receipts[name].to_pylist() for name in ("first_block", "last_block"))
        texts = map(bytes.fromhex, self.receipts["sha256"].to_pylist())
        loaded = dict(zip(zip(*columns, strict=True), texts, strict=True))
        blocks = zip(csvs.firsts, csvs.lasts, strict=True)
        rows = {
            ends: row
            for row, (ends, sha256) in enumerate(zip(blocks, digests(csvs.csv_sha256), strict=True))
            if loaded.get(ends) == sha256
        }
        if damaged := self._damaged:
            place = self.prover.archive.place
            rows = {e: row for e, row in rows.items() if place(csvs.paths[row]) not in damaged}
        return rows

    def _are_sound(self, sources: Iterable[ByteSource], prove_bytes: int | None) -> bool:
        """Prove published copies among sources; whether these are sound, else they are noted.

        These are the first `prove_bytes` bytes, and those that were found damaged before.
        """
        copies: dict[int, PublishedCopy] = {}
        suspects = self.prover.suspects
        budget = float("inf") if prove_bytes is None else prove_bytes
        for source in sources:
            if isinstance(source, PublishedCopy) and id(source) not in copies:
                if budget > 0 or source.name in suspects:
                    copies[id(source)] = source
                budget -= source.size + _OPENING_BYTES
        wrong = self._damages([*copies.values()])
        for damage in wrong:
            self._note(damage.place, damage)
        return not wrong

    def _damages(self, copies: Sequence[PublishedCopy]) -> list[DamagedCopyError]:
        """Prove copies, several at a time; what is wrong with them."""

        def prove(at: int) -> list[DamagedCopyError]:
            self.check()
            some = copies[at : at + size]
            damages = self.prover.prove(some)
            self.progress(sum(copy.size for copy in some if copy.is_proven))
            return damages

        # Many at once cost a thread less than one by one, but few must not wait for each other.
        size = max(1, min(_CHUNK, len(copies) // _READERS))
        starts = range(0, len(copies), size)
        if len(starts) <= 1:
            return [damage for at in starts for damage in prove(at)]
        with ThreadPoolExecutor(_READERS) as pool:
            return [damage for damages in pool.map(prove, starts) for damage in damages]

    def _note(self, place: str, damage: object) -> None:
        """Take no rows from a place any more."""
        if place not in self._damaged:
            self._damaged.add(place)
            self.warn(f"{damage}. The rows are taken from another copy")

    def _local(self, blocks: BlockRange) -> PartRef:
        """The part of a segment that waits to be published, else rendered from its data file."""
        (receipt,) = parse_receipts(rows_over(self.receipts, blocks))
        return self._staged(self.stage, receipt) or self._rendered(receipt)

    def _rendered(self, receipt: Receipt) -> PartRef:
        blocks = receipt.blocks
        self.check()
        if not self._made_room:
            self.rendered.make_room(self.rendered_bytes)
            self._made_room = True
        try:
            if part := self._staged(self.rendered, receipt):
                return part
            render_part(self.rendered, self.catalog, receipt, self.scratch, self.memory_limit)
            return staged_part(self.rendered, receipt, self.prover.proofs)
        except (IntegrityError, RangeError) as error:
            what = f"{receipt.table} of segment {blocks} is sound nowhere: {error}"
            raise IntegrityError(what) from error

    def _staged(self, stage: PartStage, receipt: Receipt) -> PartRef | None:
        """The part of a segment in a folder, if it is there and sound."""
        try:
            part = staged_part(stage, receipt, self.prover.proofs)
        except FileNotFoundError:
            return None
        except DamagedCopyError as damage:
            self._note(damage.place, damage)
            return None
        self.progress(part.source.size)
        return part


def held_columns(receipts: pa.Table, table: str) -> HeldColumns:
    """The segments of receipts of one table, as an export is planned from them."""
    first, last, versions = (
        receipts[name].to_pylist() for name in ("first_block", "last_block", "schema_version")
    )
    chain_id = receipts["chain_id"][0].as_py() if len(receipts) else ""
    schemas: list[TableSchema] = []
    for texts in receipts["columns"].chunks:
        known = [parse_columns(table, text) for text in texts.dictionary.to_pylist()]
        schemas += map(known.__getitem__, texts.indices.to_pylist())
    return HeldColumns(chain_id, BlockRanges(first, last), versions, schemas)
