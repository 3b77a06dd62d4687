"""Filters over a table of the lake: drawn from its values, judged in Python, asked of readers.

A filter is made of comparisons that are joined by AND or OR; NULL is what SQL makes of it. Readers
answer with the rows' segments and places, which say exactly which rows they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any, Protocol

import deltalake
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from tests.lake_readers import active_files

Value = int | Decimal | float | str | bool | datetime
Row = Mapping[str, Value | None]
Key = tuple[int, int]
"""A row's segment and its place there."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ORDERED = ("=", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column held against values; `operator` is one of `ORDERED`, between, in, is null."""

    column: str
    operator: str
    values: tuple[Value, ...] = ()
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """One or more comparisons, joined by AND or OR."""

    comparisons: tuple[Comparison, ...]
    is_and: bool = True


def holds(row: Row, asked: Filter, *, nan_is_greatest: bool) -> bool:
    """Whether a row is meant, in three-valued logic."""
    found = [_holds(row[one.column], one, nan_is_greatest) for one in asked.comparisons]
    return all(one is True for one in found) if asked.is_and else True in found


def _holds(value: Value | None, asked: Comparison, nan_is_greatest: bool) -> bool | None:
    if asked.operator == "is null":
        return (value is None) != asked.negated
    if value is None:
        return None
    if isinstance(value, float) and math.isnan(value):
        value = math.inf if nan_is_greatest else value  # no other value of the data is infinite
    return _compared(value, asked) != asked.negated


def _compared(value: Any, asked: Comparison) -> bool:
    first, *others = asked.values
    answers: Mapping[str, Callable[[], bool]] = {
        "=": lambda: value == first,
        "<": lambda: value < first,
        "<=": lambda: value <= first,
        ">": lambda: value > first,
        ">=": lambda: value >= first,
        "between": lambda: first <= value <= others[0],
        "in": lambda: value in asked.values,
    }
    return answers[asked.operator]()


def neighbours(value: Value) -> list[Value]:
    """A value, what lies one unit beside it, and what floats or 64 bits make of it."""
    if isinstance(value, bool):
        return [value, not value]
    if isinstance(value, int):
        return [value, value - 1, value + 1, int(float(value)), value + 2**64]
    if isinstance(value, Decimal):
        return [value, *_decimals(value)]
    if isinstance(value, datetime):
        return [value, *_times(value)]
    if isinstance(value, float):
        if math.isnan(value):
            return []
        return [value, math.nextafter(value, math.inf), math.nextafter(value, -math.inf)]
    return [value, value + "0", value + "\U0010ffff", value[:-1], value[:-1] + "g"]


def _decimals(value: Decimal) -> list[Value]:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    unit = Decimal(1).scaleb(exponent)
    with localcontext(prec=60):
        near = [value - unit, value + unit, Decimal(float(value)).quantize(unit)]
        return [one for one in near if len(one.as_tuple().digits) <= 38]


def _times(value: datetime) -> list[Value]:
    unit, milli = timedelta(microseconds=1), value.microsecond % 1000
    floor = value - timedelta(microseconds=milli)
    near: list[Value] = [floor, value.replace(microsecond=0)]
    if value.year > 1:
        near.append(value - unit)
    if value.year < 9999:
        near += [value + unit, floor + timedelta(milliseconds=1)]
    return near


def filters(rows: Sequence[Row]) -> st.SearchStrategy[Filter]:
    """Filters over one to three columns of these rows."""
    values = {
        column: sorted({near for row in rows for near in _near(row[column])}) for column in rows[0]
    }

    def comparisons(column: str) -> st.SearchStrategy[Comparison]:
        value = st.sampled_from(values[column])
        negated = st.sampled_from((False, False, False, True))
        pairs = st.tuples(value, value)
        if isinstance(values[column][0], bool):
            return st.builds(Comparison, st.just(column), st.just("="), st.tuples(value), negated)
        return st.one_of(
            st.builds(
                Comparison, st.just(column), st.sampled_from(ORDERED), st.tuples(value), negated
            ),
            st.builds(
                Comparison,
                st.just(column),
                st.just("between"),
                pairs.map(lambda pair: tuple(sorted(pair))),
                negated,
            ),
            st.builds(
                Comparison,
                st.just(column),
                st.just("in"),
                st.lists(value, min_size=1, max_size=4).map(tuple),
                negated,
            ),
            st.builds(Comparison, st.just(column), st.just("is null"), st.just(()), negated),
        )

    one = st.sampled_from([*values]).flatmap(comparisons)
    several = st.lists(one, min_size=1, max_size=3).map(tuple)
    return st.builds(Filter, several, st.booleans())


def _near(value: Value | None) -> list[Any]:
    return [] if value is None else neighbours(value)


class FilterReader(Protocol):
    """Asks one reader for the rows of a table that a filter means."""

    nan_is_greatest: bool

    def __init__(self, table: Path) -> None: ...

    def keys(self, asked: Filter) -> list[Key]:
        """The rows, ascending."""
        ...


def _joined(parts: Sequence[Any], is_and: bool) -> Any:
    found = parts[0]
    for part in parts[1:]:
        found = found & part if is_and else found | part
    return found


class PolarsFilters:
    """Polars' `scan_delta`."""

    nan_is_greatest = True

    def __init__(self, table: Path) -> None:
        self._table = pl.scan_delta(str(table))
        self._schema = self._table.collect_schema()

    def expression(self, asked: Filter) -> pl.Expr:
        parts = [self._one(comparison) for comparison in asked.comparisons]
        return _joined(parts, asked.is_and)  # type: ignore[no-any-return]

    def keys(self, asked: Filter) -> list[Key]:
        found = self._table.filter(self.expression(asked)).select("_segment", "_row").collect()
        return sorted(found.iter_rows())

    def _one(self, asked: Comparison) -> pl.Expr:
        column = pl.col(asked.column)
        held = self._schema[asked.column]

        def literal(value: Value) -> pl.Expr:
            return pl.lit(value, held) if isinstance(value, Decimal) else pl.lit(value)

        values = [literal(value) for value in asked.values]
        if asked.operator == "is null":
            found = column.is_null()
        elif asked.operator == "between":
            found = column.is_between(values[0], values[1])
        elif asked.operator == "in":
            found = _joined([column == value for value in values], False)
            if not isinstance(asked.values[0], int):
                found = column.is_in(pl.Series(asked.values, dtype=held).implode())
        else:
            found = {
                "=": column == values[0],
                "<": column < values[0],
                "<=": column <= values[0],
                ">": column > values[0],
                ">=": column >= values[0],
            }[asked.operator]
        return ~found if asked.negated else found


class PyarrowFilters:
    """pyarrow's dataset, as delta-rs makes it from the log."""

    nan_is_greatest = False

    def __init__(self, table: Path) -> None:
        self.dataset = deltalake.DeltaTable(str(table)).to_pyarrow_dataset()

    def expression(self, asked: Filter) -> pc.Expression:
        parts = [self._one(comparison) for comparison in asked.comparisons]
        return _joined(parts, asked.is_and)

    def keys(self, asked: Filter) -> list[Key]:
        found = self.dataset.to_table(columns=["_segment", "_row"], filter=self.expression(asked))
        return sorted(zip(found["_segment"].to_pylist(), found["_row"].to_pylist(), strict=True))

    def _one(self, asked: Comparison) -> pc.Expression:
        column = pc.field(asked.column)
        held = self.dataset.schema.field(asked.column).type

        def scalar(value: Value) -> pa.Scalar:
            if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**31:
                return pa.scalar(Decimal(value), pa.decimal128(38, 0))
            return pa.scalar(value) if isinstance(value, int) else pa.scalar(value, held)

        values = [scalar(value) for value in asked.values]
        if asked.operator == "is null":
            found = column.is_null()
        elif asked.operator == "between":
            found = (column >= values[0]) & (column <= values[1])
        elif asked.operator == "in":
            found = _joined([column == value for value in values], False)
            if not isinstance(asked.values[0], int):
                found = column.isin(pa.array(asked.values, held))
                # pyarrow's NULL is in no list, which is not SQL's NULL.
                found = found | column.is_null() if asked.negated else found
        else:
            found = {
                "=": column == values[0],
                "<": column < values[0],
                "<=": column <= values[0],
                ">": column > values[0],
                ">=": column >= values[0],
            }[asked.operator]
        return ~found if asked.negated else found


def _sql(asked: Filter, literal: Callable[[Value], str], *, lists: bool = True) -> str:
    joint = " and " if asked.is_and else " or "
    return joint.join(f"({_sql_one(one, literal, lists)})" for one in asked.comparisons)


def _sql_one(asked: Comparison, literal: Callable[[Value], str], lists: bool) -> str:
    values = [literal(value) for value in asked.values]
    text = f'"{asked.column}" '
    if asked.operator == "is null":
        text += "is null"
    elif asked.operator == "between":
        text += f"between {values[0]} and {values[1]}"
    elif asked.operator == "in" and not lists:
        text = " or ".join(f"{text}= {value}" for value in values)
    elif asked.operator == "in":
        text += f"in ({', '.join(values)})"
    else:
        text += f"{asked.operator} {values[0]}"
    return f"not ({text})" if asked.negated else text


def _micros(value: datetime) -> int:
    return (value - _EPOCH) // timedelta(microseconds=1)


def _plain_literal(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, float):
        return f"cast('{value!r}' as double)"
    if isinstance(value, int) and abs(value) < 2**63:
        return str(value)
    assert isinstance(value, int | Decimal)
    if isinstance(value, int):
        return f"cast('{value}' as decimal(38,0))"
    return f"cast('{value:f}' as decimal(38,{-int(value.as_tuple().exponent)}))"


class DeltaSqlFilters:
    """delta-rs' own SQL."""

    nan_is_greatest = True

    def __init__(self, table: Path) -> None:
        self._builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(table)))

    def keys(self, asked: Filter) -> list[Key]:
        # `not in (a) or not in (b)` finds rows with NULL, too: DataFusion takes it for true.
        where = _sql(asked, self._literal, lists=False)
        batches = self._builder.execute(f"select _segment, _row from t where {where}")
        found = pa.table(batches.read_all())
        return sorted(zip(found["_segment"].to_pylist(), found["_row"].to_pylist(), strict=True))

    @staticmethod
    def _literal(value: Value) -> str:
        if isinstance(value, datetime):
            return f"""arrow_cast({_micros(value)}, 'Timestamp(Microsecond, Some("UTC"))')"""
        return _plain_literal(value)


class DuckdbFilters:
    """DuckDB's `read_parquet` over the files of the newest version."""

    nan_is_greatest = True

    def __init__(self, table: Path) -> None:
        self._con = duckdb.connect(config={"threads": 1})
        files = ", ".join("'" + str(path).replace("'", "''") + "'" for path in active_files(table))
        self._source = f"read_parquet([{files}], union_by_name = true)"

    def keys(self, asked: Filter) -> list[Key]:
        where = _sql(asked, self._literal)
        return self._con.execute(
            f"select _segment, _row from {self._source} where {where} order by all"
        ).fetchall()

    @staticmethod
    def _literal(value: Value) -> str:
        if isinstance(value, datetime):
            return f"make_timestamptz({_micros(value)})"
        return _plain_literal(value)


FILTER_READERS: Mapping[str, type[FilterReader]] = {
    "polars": PolarsFilters,
    "pyarrow": PyarrowFilters,
    "delta-rs SQL": DeltaSqlFilters,
    "duckdb": DuckdbFilters,
}
