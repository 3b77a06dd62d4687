"""From an export's request to the ZIP's layout (spec 4.1; decisions 4 to 6). No HTTP here."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from api.desk import Question
from api.errors import InvalidArgumentError, NotFoundError, Reason
from api.parameters import Choice, Fields, Scalar, read_parameters
from api.parts import PartFinder
from api.snapshots import Reading
from api.work import Cancellation
from exporters.layout import Layout
from exporters.plan import (
    ExportPlan,
    HeldSegment,
    InvalidExportError,
    NotHeldError,
    export_range,
    plan_export,
)
from exporters.splice import layout_export
from transforms.errors import RangeError
from transforms.receipts import LoadedSegment, parse_columns
from transforms.registry import TableSchema
from transforms.segments import BlockRange
from transforms.serving import Value

TABLES = (
    "unspecified",
    "balances",
    "checkpoints",
    "delegations",
    "ledger",
    "orders",
    "trades",
    "market_data",
    "margin_levels",
    "positions",
    "liquidity_provisions",
    "markets",
    "deposits",
    "withdrawals",
    "blocks",
    "rewards",
)
"""The tables by the network's own numbers (spec 4.1)."""

_FIELDS: Fields = {
    "from_block": Scalar.INT64,
    "to_block": Scalar.INT64,
    "table": Choice({f"TABLE_{name.upper()}": number for number, name in enumerate(TABLES)}),
}
_COLUMNS = (
    "select first_block, columns from {}.strata.receipts "
    "where table_name = $1 and first_block between $2 and $3"
)


@dataclass(frozen=True, slots=True)
class ExportNetworkHistory:
    """One table over a range of blocks; table 0 is none."""

    first: int = 0
    last: int = 0
    table: int = 0


def read_export(query: Iterable[tuple[str, str]]) -> ExportNetworkHistory:
    """Read a request. Raises `MalformedParameterError`."""
    read = read_parameters(query, _FIELDS)
    return ExportNetworkHistory(
        read.get("from_block", 0), read.get("to_block", 0), read.get("table", 0)
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
