"""Finding sound copies of the parts that an export needs (spec 4.1).

The fewest published ZIPs are taken that hold the range, and for segments that no sound one holds
the part that waits to be published, or one that is rendered now. A copy that is damaged or missing
is named in a warning and another is taken; only where none is sound is that an error.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.exports.collector import collector_paused
from exporters.exports.copies import Copy, DamagedCopyError
from exporters.exports.cover import Candidate, cheapest_cover
from exporters.exports.damages import Damages
from exporters.exports.outage import SECONDS, Outage
from exporters.exports.plan import ExportPlan, HeldSegment, Span, plan_export
from exporters.exports.published_zips import published_copy, published_parts
from exporters.exports.rendered import RenderedParts
from exporters.exports.splice import layout_spans
from exporters.exports.staged_zips import staged_part
from exporters.zip_names import NameStyle, zip_name
from exporters.zips.layout import Layout
from exporters.zips.parts import PartRef
from exporters.zips.sources import ByteSource, LocalSource
from exporters.zips.staging import PartStage
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError, RangeError
from transforms.files import file_version
from transforms.stores.store import content_sha256
from transforms.tables.registry import TableSchema
from transforms.verifying.proofs import Proofs
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.questions.holdings import Holdings

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
    receipts: Sequence[Receipt]
    damages: Damages
    check: Callable[[], object]
    progress: Callable[[int], object]
    _published: dict[str, tuple[PartRef, ...]] = field(default_factory=dict)
    _made_room: bool = False

    def lay_out(self, plan: ExportPlan, style: NameStyle, prove_bytes: int | None) -> Layout:
        """The ZIP of a plan from sound copies.

        Those of the first `prove_bytes` bytes (None: all) are proven now, the others before their
        first byte is read. Raises `IntegrityError` where a part is sound nowhere.
        """
        entries = self._entries(plan)
        while True:
            parts_by_span = [self._parts(span, entries) for span in plan.spans]
            if self._are_sound([p for parts in parts_by_span for p in parts], prove_bytes):
                break
        with collector_paused():
            return layout_spans(plan, parts_by_span, style)

    def _entries(self, plan: ExportPlan) -> Sequence[Entry]:
        """The published ZIPs inside a range; none where the archive is away for now."""
        archive, outage = self.places.archive, self.places.outage
        if outage.lasts:
            return ()
        try:
            with collector_paused():
                return list(archive.entries_inside(plan.table, plan.blocks, self._note_shard))
        except ConnectionError as error:
            outage.begin()
            _log.warning(
                "no published ZIPs are used for %d s, rows come from the warehouse: %s",
                SECONDS,
                error,
            )
            return ()

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
        table = self.receipts[0].table
        segments = (HeldSegment(r.segment, {table: r.schema}) for r in self._within(blocks))
        return plan_export(segments, table, blocks)

    def _within(self, blocks: BlockRange) -> Sequence[Receipt]:
        start = bisect_left(self.receipts, blocks.first, key=lambda r: r.blocks.first)
        stop = bisect_right(self.receipts, blocks.last, key=lambda r: r.blocks.first)
        return self.receipts[start:stop]

    def _parts(self, span: Span, entries: Sequence[Entry]) -> Sequence[PartRef]:
        self.check()
        with collector_paused():
            chosen = self._choose(span, entries)
            for entry, _ in chosen:
                if entry is not None and entry.path not in self._published:
                    copy = published_copy(
                        self.places.archive, entry, self.places.proofs, self.find_equal
                    )
                    self._published[entry.path] = published_parts(entry, copy)
        return [
            self._published[entry.path][number] if entry else self._local(span.segments[number])
            for entry, number in chosen
        ]

    def _choose(self, span: Span, entries: Sequence[Entry]) -> Sequence[tuple[Entry | None, int]]:
        """The fewest published CSVs that hold a span, as entry and number of the CSV in it.

        A segment that none of them holds comes without an entry, as its number in the span.
        """
        inside, fits = span.blocks, _SameColumns(span.schema)
        published: Iterator[Candidate[tuple[Entry | None, int]]] = (
            Candidate(csv.blocks, 1, (entry, number))
            for entry in entries
            if not self.damages or self.places.archive.place(entry.path) not in self.damages
            for number, csv in enumerate(entry.members)
            if inside.first <= csv.blocks.first
            and csv.blocks.last <= inside.last
            and fits(csv.schema)
        )
        local: Iterator[Candidate[tuple[Entry | None, int]]] = (
            Candidate(blocks, _LOCAL_COST, (None, number))
            for number, blocks in enumerate(span.segments)
        )
        choice = cheapest_cover(inside, [*published, *local])
        assert choice is not None
        return choice

    def _are_sound(self, parts: Sequence[PartRef], prove_bytes: int | None) -> bool:
        """Prove the copies of parts from the first on; whether all of these are sound."""
        copies = {id(part.source): part.source for part in parts}
        candidates: list[Copy] = []
        budget = float("inf") if prove_bytes is None else prove_bytes
        for copy in copies.values():
            budget -= copy.size + _OPENING_BYTES
            if budget < 0 and candidates:
                break
            if isinstance(copy, Copy):
                candidates.append(copy)
        return None not in self.damages.on_each(self._proven, candidates, self.check)

    def _proven(self, copy: Copy) -> bool:
        copy.prove()
        self.progress(copy.size)
        return True

    def _local(self, blocks: BlockRange) -> PartRef:
        """The part of a segment that waits to be published, else rendered from its data file."""
        (receipt,) = self._within(blocks)
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

    def _note_shard(self, blocks: BlockRange, error: IntegrityError) -> None:
        """A shard of the index cannot be read: its ZIPs are passed over."""
        self.damages.note(str(error), blocks, str(error))


class _SameColumns:
    """Whether schemas have the columns of one; the entries of a shard share theirs."""

    def __init__(self, schema: TableSchema) -> None:
        self._columns = schema.columns
        self._known: dict[int, tuple[bool, object]] = {}

    def __call__(self, schema: TableSchema) -> bool:
        columns = schema.columns
        if id(columns) not in self._known:
            # Kept with its answer: what is gone could leave its id to another.
            self._known[id(columns)] = (columns == self._columns, columns)
        return self._known[id(columns)][0]
