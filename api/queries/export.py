"""From an export's request to the ZIP's layout (spec 4.1; decisions 4 to 6). No HTTP here."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence

from api.core.errors import InvalidArgumentError, NotFoundError, Reason
from api.core.query_runner import Question
from api.core.snapshots import Reading
from api.core.workers import Cancellation
from api.queries.part_finder import PartFinder
from api.queries.requests import TABLES, ExportNetworkHistory
from exporters.exports.plan import (
    ExportPlan,
    HeldSegment,
    InvalidExportError,
    NotHeldError,
    export_range,
    plan_export,
)
from exporters.exports.splice import layout_export
from exporters.zips.layout import Layout
from transforms.blocks import BlockRange
from transforms.errors import RangeError
from transforms.sessions import Value
from transforms.tables.registry import TableSchema
from transforms.warehouse.receipts import LoadedSegment, parse_columns

_COLUMNS = (
    "select first_block, columns from {}.strata.receipts "
    "where table_name = $1 and first_block between $2 and $3"
)


def layout_question(request: ExportNetworkHistory, parts: PartFinder) -> Question[Layout]:
    """A request as what is asked at a desk; see `lay_out`."""
    return lambda reading, cancellation: lay_out(reading, request, parts, cancellation)


def lay_out(
    reading: Reading, request: ExportNetworkHistory, parts: PartFinder, cancellation: Cancellation
) -> Layout:
    """Lay the ZIP out; parts that exist nowhere are rendered now, which may take long.

    Raises `InvalidArgumentError` for what cannot be right, `NotFoundError` for what is not held.
    """
    if not request.table:
        raise InvalidArgumentError(Reason.NO_TABLE, "empty table name")
    table = TABLES[request.table]
    try:
        blocks = export_range(request.first, request.last)
        plan = _plan(reading, table, blocks)
        found = parts.find(plan, reading.snapshot.catalog, cancellation)
        return layout_export(plan, found, parts.style)
    except InvalidExportError as error:
        raise InvalidArgumentError(Reason.NO_SEGMENTS, str(error)) from error
    except NotHeldError as error:
        raise NotFoundError(Reason.NO_SEGMENTS, str(error)) from error


def _plan(reading: Reading, table: str, blocks: BlockRange) -> ExportPlan:
    held = reading.snapshot.once("ascending segments", lambda s: list(s.catalog.segments.values()))
    schemas = _schemas(reading, table, blocks)
    start = bisect_left(held, blocks.first, key=lambda segment: segment.blocks.last)
    stop = bisect_right(held, blocks.last, key=lambda segment: segment.blocks.first)
    try:
        return plan_export(_described(held[start:stop], table, schemas), table, blocks)
    except RangeError:
        # All segments, which may be very many, are needed only to say what would be right.
        return plan_export(_described(held, table, schemas), table, blocks)


def _described(
    segments: Sequence[LoadedSegment], table: str, schemas: Mapping[int, TableSchema]
) -> Iterator[HeldSegment]:
    for segment in segments:
        schema = schemas.get(segment.blocks.first)
        yield HeldSegment(segment.name, {} if schema is None else {table: schema})


def _schemas(reading: Reading, table: str, blocks: BlockRange) -> dict[int, TableSchema]:
    """The table's columns in each segment of the range, by first block."""
    schemas: dict[int, TableSchema] = {}
    known: dict[str, TableSchema] = {}
    values: list[Value] = [table, blocks.first, blocks.last]
    for volume in reading.snapshot.catalog.history():
        if volume.blocks.overlaps(blocks) and table in volume.shapes:
            file = reading.snapshot.files[volume.file]
            for first, columns in reading.rows(_COLUMNS.format(file), values):
                if columns not in known:
                    known[columns] = parse_columns(table, columns)
                schemas[first] = known[columns]
    return schemas
