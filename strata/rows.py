"""Rows of one table, as the libraries of notebooks have them; every value stays exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from transforms.quoting import quote_name

if TYPE_CHECKING:
    import duckdb


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


class Rows:
    """Rows that a query gives; it is run each time that one of the methods wants them.

    Each method asks by a cursor of its own, so they can be used side by side.

    Amounts are decimals of up to 38 digits, times have microseconds and UTC, `_raw` maps columns to
    the texts of cells that fit no type: those are NULL.
    """

    def __init__(
        self,
        con: Callable[[], duckdb.DuckDBPyConnection],
        cursor: Callable[[], duckdb.DuckDBPyConnection],
        query: str,
    ) -> None:
        """`con` gives what relations belong to; `cursor` another connection to the same data."""
        self._con = con
        self._cursor = cursor
        self._query = query

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self._cursor().sql(self._query).columns)

    def relation(self) -> duckdb.DuckDBPyRelation:
        """The rows as DuckDB's relation, to filter, join and aggregate there."""
        return self._con().sql(self._query)

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self._cursor().sql(self._query).to_arrow_table()

    def polars(self) -> pl.LazyFrame:
        """The rows as a Polars LazyFrame; columns that are not asked for are not read."""
        # DuckDB's own, `pl(lazy=True)`, takes over filters, too, and compares decimals as floats.
        nothing = self._cursor().sql(self._query).limit(0).to_arrow_table()
        schema = _frame(nothing).schema
        return register_io_source(self._batches, schema=schema)

    def _batches(
        self,
        columns: list[str] | None,
        predicate: pl.Expr | None,
        rows: int | None,
        _batch_rows: int | None,
    ) -> Iterator[pl.DataFrame]:
        """What Polars asks for: some columns of some rows, as they come."""
        relation = self._cursor().sql(self._query)
        if columns is not None:
            relation = relation.project(", ".join(map(quote_name, columns)))
        for batch in (relation if rows is None else relation.limit(rows)).to_arrow_reader():
            frame = _frame(pa.Table.from_batches([batch]))
            yield frame if predicate is None else frame.filter(predicate)
