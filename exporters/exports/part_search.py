"""Finding sound copies of the parts that an export needs (spec 4.1).

The fewest published ZIPs are taken that hold the range, and for segments that no sound one holds
the part that waits to be published, or one that is rendered now. A copy that is damaged or missing
is named in a warning and another is taken; only where none is sound is that an error.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, repeat

from exporters.archive.archive import Archive
from exporters.archive.csv_columns import CsvColumns
from exporters.exports.copies import Copy, DamagedCopyError, Damages
from exporters.exports.plan import ExportPlan, HeldColumns, Span, cheapest_cover, plan_export
from exporters.exports.published_zips import PublishedCopy, PublishedCsvs, ZipProver
from exporters.exports.splice import layout_spans
from exporters.exports.staged_zips import RenderedParts, staged_part
from exporters.zip_names import NameStyle, zip_name
from exporters.zips.layout import Layout
from exporters.zips.parts import PartColumns, PartRef
from exporters.zips.sources import ByteSource, LocalSource
from exporters.zips.staging import PartStage
from transforms.block_range import BlockRange, BlockRanges
from transforms.errors import IntegrityError, RangeError
from transforms.files import file_version
from transforms.stores.store import content_sha256
from transforms.verifying.proofs import Proofs
from transforms.warehouse.manifests.receipt_columns import ReceiptColumns
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.questions.holdings import Holdings

SECONDS = 30.0
"""How long after a failure the store is not asked: requests to one that is away take seconds."""


class Outage:
    """Whether a store failed a moment ago; safe among threads."""

    def __init__(self) -> None:
        self._until = 0.0

    @property
    def lasts(self) -> bool:
        """Whether it is too early to ask the store again."""
        return time.monotonic() < self._until

    def begin(self) -> None:
        """Note that the store has just failed."""
        self._until = time.monotonic() + SECONDS


_log = logging.getLogger(__name__)

# Opening a copy to prove it takes about as long as reading so many bytes of it.
_OPENING_BYTES = 32 * 1024
# No number of published ZIPs is dearer than a part that must be looked for on the disk.
_LOCAL_COST = 10**9


@dataclass(frozen=True, slots=True)
class PartPlaces:
    """Where the parts of one chain can lie, and what was proven of them."""

    archive: Archive
    stage: PartStage
    rendered: RenderedParts
    proofs: Proofs
    outage: Outage


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
            if self._are_sound(published.prover, sources, prove_bytes):
                break
        with collector_paused():
            return layout_spans(plan, parts_by_span, style)

    def _published(self, plan: ExportPlan) -> PublishedCsvs:
        """The published CSVs beside a range; none where the archive is away for now."""
        archive, outage = self.places.archive, self.places.outage
        prover = ZipProver(archive, self.places.proofs)
        columns = CsvColumns(plan.table)
        if not outage.lasts:
            try:
                columns = archive.csvs_inside(
                    plan.table,
                    plan.blocks,
                    lambda blocks, error: self.damages.note(str(error), blocks, str(error)),
                )
            except ConnectionError as error:
                outage.begin()
                _log.warning(
                    "no published ZIPs are used for %d s, rows come from the warehouse: %s",
                    SECONDS,
                    error,
                )
        return PublishedCsvs(columns, plan.blocks, prover, self.find_equal)

    def find_equal(self, copy: Copy, reason: Exception) -> ByteSource:
        """The bytes of a copy that cannot be read, put together anew from other copies.

        Raises `IntegrityError` where that does not give the very same bytes.
        """
        self.damages.note(copy.name, copy.blocks, str(reason))
        plan = self._plan(copy.blocks)
        for style in NameStyle:
            name = zip_name(plan.chain_id, plan.table, plan.blocks, style)
            if name == copy.name.rpartition("/")[2]:
                path = self.places.rendered.joined(name)
                self.lay_out(plan, style, None).write(path, durable=False)
                status = path.stat()
                if content_sha256(path) == copy.version:
                    return LocalSource(path, status.st_size, copy.version, file_version(status))
        raise IntegrityError(
            f"{reason}. No other copy has the very same bytes, so what was sent of the ZIP cannot "
            "be completed: ask for it again"
        )

    def _plan(self, blocks: BlockRange) -> ExportPlan:
        within = self.receipts.over(blocks)
        return plan_export(held_columns(within), within.schemas[0].table, blocks)

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
        if self.damages:
            place = self.places.archive.place
            rows = [row for row in rows if place(csvs.paths[row]) not in self.damages]
        return rows

    def _are_sound(
        self, prover: ZipProver, sources: Iterable[ByteSource], prove_bytes: int | None
    ) -> bool:
        """Prove the published copies among sources from the first on; whether these are sound."""
        copies: dict[int, PublishedCopy] = {}
        budget = float("inf") if prove_bytes is None else prove_bytes
        for source in sources:
            if id(source) in copies:
                continue
            budget -= source.size + _OPENING_BYTES
            if budget < 0 and copies:
                break
            if isinstance(source, PublishedCopy):
                copies[id(source)] = source

        def prove(some: Sequence[PublishedCopy]) -> list[DamagedCopyError]:
            damages = prover.prove(some)
            self.progress(sum(copy.size for copy in some if copy.is_proven))
            return damages

        return self.damages.are_sound(prove, [*copies.values()], self.check)

    def _local(self, blocks: BlockRange) -> PartRef:
        """The part of a segment that waits to be published, else rendered from its data file."""
        (receipt,) = self.receipts.over(blocks)
        stage = self.places.stage
        path = stage.path(receipt.segment.chain_id, receipt.table, blocks)
        if str(path) not in self.damages:
            try:
                return self._local_part(stage, receipt)
            except FileNotFoundError:
                pass
            except DamagedCopyError as damage:
                self.damages.note(damage.place, blocks, str(damage))
        return self._rendered(receipt)

    def _rendered(self, receipt: Receipt) -> PartRef:
        rendered, blocks = self.places.rendered, receipt.blocks
        self.check()
        if not self._made_room:
            rendered.make_room()
            self._made_room = True
        try:
            data = self.holdings.rows(receipt.table, blocks)
            try:
                return self._local_part(rendered.stage(data, receipt), receipt)
            except (DamagedCopyError, FileNotFoundError):  # removed by an export that made room
                return self._local_part(rendered.stage(data, receipt, again=True), receipt)
        except (IntegrityError, RangeError) as error:
            raise IntegrityError(
                f"{receipt.table} of segment {blocks} is sound nowhere: "
                f"{'; '.join([*self.damages.over(blocks), str(error)])}"
            ) from error

    def _local_part(self, stage: PartStage, receipt: Receipt) -> PartRef:
        part = staged_part(stage, receipt, self.places.proofs, self.find_equal)
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
