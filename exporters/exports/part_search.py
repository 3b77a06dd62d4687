"""Finding sound copies of the parts that an export needs (spec 4.1).

The fewest published ZIPs are taken that hold the range, and for segments that no sound one holds
the part that waits to be published, or one that is rendered now. A copy that is found damaged or
missing is named in a warning and another is taken; one that goes bad later ends the download.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, repeat
from pathlib import Path

from exporters.archive.csv_columns import CsvColumns
from exporters.exports.copies import DamagedCopyError, Damages
from exporters.exports.plan import ExportPlan, HeldColumns, Span, cheapest_cover
from exporters.exports.published_zips import PublishedCopy, PublishedCsvs, ZipProver
from exporters.exports.splice import layout_spans
from exporters.exports.staged_zips import render_part, staged_part
from exporters.zip_names import NameStyle
from exporters.zips.layout import Layout
from exporters.zips.parts import PartColumns, PartRef
from exporters.zips.sources import ByteSource
from exporters.zips.staging import PartStage
from transforms.block_range import BlockRange, BlockRanges
from transforms.errors import IntegrityError, RangeError
from transforms.warehouse.manifests.receipt_columns import ReceiptColumns
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.questions.holdings import Holdings

_log = logging.getLogger(__name__)

# Opening a copy to prove it takes about as long as reading so many bytes of it.
_OPENING_BYTES = 32 * 1024
_READERS = 8
_CHUNK = 32
# No number of published ZIPs is dearer than a part that must be looked for on the disk.
_LOCAL_COST = 10**9


@dataclass(frozen=True, slots=True)
class PartPlaces:
    """Where the parts of one chain can lie: published, waiting, or rendered for exports.

    `rendered_bytes` bounds what is kept of these; `memory_limit` the DuckDB that renders one.
    """

    prover: ZipProver
    stage: PartStage
    rendered: PartStage
    scratch: Path
    rendered_bytes: int
    memory_limit: str


@dataclass(slots=True)
class PartSearch:
    """The search for the parts of segments with these `receipts` of one table, which ascend.

    `damages` are noted on the way; `check` is called now and then, and raises where nobody waits
    any more; `progress` gets the bytes of ZIPs just proven.
    """

    places: PartPlaces
    holdings: Holdings
    receipts: ReceiptColumns
    damages: Damages
    check: Callable[[], object]
    progress: Callable[[int], object]
    _made_room: bool = False

    def lay_out(self, plan: ExportPlan, style: NameStyle, prove_bytes: int | None) -> Layout:
        """The ZIP of a plan from sound copies.

        Those of the first `prove_bytes` bytes (None: all) are proven now, the others before their
        first byte is read. Raises `IntegrityError` where a part is sound nowhere.
        """
        published = self._published(plan)
        while True:
            parts_by_span = [self._parts(span, published) for span in plan.spans]
            sources = (source for parts in parts_by_span for source in parts.sources)
            if self._are_sound(sources, prove_bytes):
                break
        with collector_paused():
            return layout_spans(plan, parts_by_span, style)

    def _published(self, plan: ExportPlan) -> PublishedCsvs:
        """The published CSVs beside a range; none where the archive cannot be reached."""
        prover, columns = self.places.prover, CsvColumns(plan.table)
        try:
            columns = prover.archive.csvs_inside(
                plan.table, plan.blocks, lambda error: self.damages.note(str(error), error)
            )
        except ConnectionError as error:
            _log.warning("no published ZIPs are used, rows come from the warehouse: %s", error)
        return PublishedCsvs(columns, plan.blocks, prover)

    def _parts(self, span: Span, published: PublishedCsvs) -> PartColumns:
        """The parts of a span: where no published CSV has a segment, a local one."""
        self.check()
        rows = self._fitting(span, published)
        count, parts = len(rows), PartColumns()
        for is_local, numbers in groupby(_chosen(span, published, rows), lambda n: n >= count):
            if is_local:
                segments = (span.segments[number - count] for number in numbers)
                parts.extend(PartColumns.of(map(self._local, segments)))
            else:
                with collector_paused():
                    parts.extend(published.parts([rows[number] for number in numbers]))
        return parts

    def _fitting(self, span: Span, published: PublishedCsvs) -> list[int]:
        """The rows of the CSVs inside a span that have its columns, in ZIPs that may be taken."""
        csvs, inside, whole = published.columns, span.blocks, published.blocks
        # The entries of a shard share their columns: each is compared once.
        distinct = {id(schema.columns): schema.columns for schema in csvs.schemas}
        fitting = {key for key, columns in distinct.items() if columns == span.schema.columns}
        ends = zip(
            csvs.firsts, csvs.lasts, csvs.zip_firsts, csvs.zip_lasts, csvs.schemas, strict=True
        )
        rows = [
            row
            for row, (first, last, zip_first, zip_last, schema) in enumerate(ends)
            if inside.first <= first
            and last <= inside.last
            and whole.first <= zip_first
            and zip_last <= whole.last
            and id(schema.columns) in fitting
        ]
        if damaged := self.damages.places:
            place = self.places.prover.archive.place
            rows = [row for row in rows if place(csvs.paths[row]) not in damaged]
        return rows

    def _are_sound(self, sources: Iterable[ByteSource], prove_bytes: int | None) -> bool:
        """Prove published copies among sources; whether these are sound, else they are noted.

        These are the first `prove_bytes` bytes, and those that were found damaged before.
        """
        copies: dict[int, PublishedCopy] = {}
        suspects = self.places.prover.suspects
        budget = float("inf") if prove_bytes is None else prove_bytes
        for source in sources:
            if isinstance(source, PublishedCopy) and id(source) not in copies:
                if budget > 0 or source.name in suspects:
                    copies[id(source)] = source
                budget -= source.size + _OPENING_BYTES
        wrong = self._damages([*copies.values()])
        for damage in wrong:
            self.damages.note(damage.place, damage)
        return not wrong

    def _damages(self, copies: Sequence[PublishedCopy]) -> list[DamagedCopyError]:
        """Prove copies, several at a time; what is wrong with them."""

        def prove(at: int) -> list[DamagedCopyError]:
            self.check()
            some = copies[at : at + size]
            damages = self.places.prover.prove(some)
            self.progress(sum(copy.size for copy in some if copy.is_proven))
            return damages

        # Many at once cost a thread less than one by one, but few must not wait for each other.
        size = max(1, min(_CHUNK, len(copies) // _READERS))
        starts = range(0, len(copies), size)
        if len(starts) <= 1:
            return [damage for at in starts for damage in prove(at)]
        with ThreadPoolExecutor(_READERS) as pool:
            return [damage for damages in pool.map(prove, starts) for damage in damages]

    def _local(self, blocks: BlockRange) -> PartRef:
        """The part of a segment that waits to be published, else rendered from its data file."""
        (receipt,) = self.receipts.over(blocks)
        return self._staged(self.places.stage, receipt) or self._rendered(receipt)

    def _rendered(self, receipt: Receipt) -> PartRef:
        places, blocks = self.places, receipt.blocks
        self.check()
        if not self._made_room:
            places.rendered.make_room(places.rendered_bytes)
            self._made_room = True
        try:
            if part := self._staged(places.rendered, receipt):
                return part
            data = self.holdings.rows(receipt.table, blocks)
            render_part(places.rendered, data, receipt, places.scratch, places.memory_limit)
            return staged_part(places.rendered, receipt, places.prover.proofs)
        except (IntegrityError, RangeError) as error:
            what = f"{receipt.table} of segment {blocks} is sound nowhere: {error}"
            raise IntegrityError(what) from error

    def _staged(self, stage: PartStage, receipt: Receipt) -> PartRef | None:
        """The part of a segment in a folder, if it is there and sound."""
        try:
            part = staged_part(stage, receipt, self.places.prover.proofs)
        except FileNotFoundError:
            return None
        except DamagedCopyError as damage:
            self.damages.note(damage.place, damage)
            return None
        self.progress(part.source.size)
        return part


def _chosen(span: Span, published: PublishedCsvs, rows: Sequence[int]) -> list[int]:
    """The fewest published CSVs of these rows that hold a span, by their number among the rows.

    A segment that none of them holds comes as its number in the span, counted on from theirs.
    """
    csvs, segments = published.columns, span.segments
    candidates = BlockRanges(
        [*(csvs.firsts[row] for row in rows), *segments.firsts],
        [*(csvs.lasts[row] for row in rows), *segments.lasts],
    )
    costs = [*repeat(1, len(rows)), *repeat(_LOCAL_COST, len(segments))]
    choice = cheapest_cover(span.blocks, candidates, costs)
    assert choice is not None
    return choice


def held_columns(receipts: ReceiptColumns) -> HeldColumns:
    """The segments of receipts, as an export is planned from them."""
    blocks = BlockRanges(receipts.first, receipts.last)
    return HeldColumns(receipts.chain_id, blocks, receipts.versions, receipts.schemas)


@contextmanager
def collector_paused() -> Iterator[None]:
    """No collection for the length of a block, which must be short: it holds for all threads.

    In a plan of 10,000 segments half of the time went into rounds that found nothing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
