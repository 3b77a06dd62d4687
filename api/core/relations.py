"""Tables as the attached files hold them, and SQL over their columns.

A segment may lack a column, or hold cells that no type holds (`_raw`): both are dealt with here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from transforms.blocks import BlockRange
from transforms.duck import quote_name, quote_text
from transforms.lookups.lookup_tables import Lookups
from transforms.lookups.zone_maps import Range
from transforms.warehouse.shapes import Shape


@dataclass(frozen=True)
class HeldTable:
    """One table in one attached file: that of a run of segments, or of a current state.

    `lookups` is what is in memory of the file's lookups, if it has them.
    """

    file: str
    table: str
    blocks: BlockRange
    shape: Shape
    lookups: Lookups | None = None

    @property
    def source(self) -> str:
        """The table's name in SQL."""
        return f"{self.file}.main.{quote_name(self.table)}"

    def lookup(self, name: str) -> str:
        """The name in SQL of a lookup in the same file, of those it has; else of the table."""
        return self.source if self.lookups is None else f"{self.file}.strata.{name}"

    def has(self, column: str) -> bool:
        """Whether the table has the column; DuckDB folds case."""
        return column in self._names

    @property
    def is_usable(self) -> bool:
        """Whether the table has the columns that every query about it needs."""
        return all(column in self._names for column in NEEDED[self.table])

    def value(self, column: str) -> str:
        """SQL for the typed value of a column, NULL where there is none."""
        return quote_name(column) if self.has(column) else "null"

    def time(self, column: str) -> str:
        """SQL for a TIMESTAMPTZ column."""
        return quote_name(column) if self.has(column) else "null::timestamptz"

    def number(self, column: str) -> str:
        """SQL for the plain text of a number of any size, exact."""
        name = self._names.get(column)
        if name is None:
            return "null::varchar"
        text = f"{quote_name(name)}::varchar"
        if name in self.shape.raw:
            return f"coalesce(_raw[{quote_text(name)}], {text})"
        return text

    @cached_property
    def _names(self) -> dict[str, str]:
        return {name.lower(): name for name in self.shape.columns}


NEEDED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "blocks": ("height", "vega_time"),
        "orders": ("id", "version", "vega_time", "seq_num"),
        "withdrawals": ("id", "party_id", "vega_time"),
        "liquidity_provisions": ("id", "vega_time", "market_id", "party_id", "reference"),
        "live_liquidity_provisions": ("id", "vega_time", "market_id", "party_id", "reference"),
        "node_signatures": ("resource_id", "sig"),
        "oracle_data": ("vega_time", "seq_num", "signers"),
        "oracle_data_oracle_specs": ("vega_time", "seq_num", "spec_id"),
        "network_parameters": ("key", "value", "vega_time"),
        "epochs": ("id",),
    }
)
"""The columns without which a table's rows cannot be found or distinguished."""


class Columns:
    """Columns of a table in the order in which they are read.

    `names` are separated by spaces; a time ends in `@`, a number that is read as text in `#`.
    """

    def __init__(self, names: str) -> None:
        self._names = names.split()

    def inner(self, table: HeldTable) -> str:
        """The select list over one file: every column under its own name."""
        return ", ".join(f"{_read(table, name)} as {_plain(name)}" for name in self._names)

    def direct(self, table: HeldTable) -> str:
        """The select list over one file where no union follows: times as microseconds."""
        return ", ".join(
            f"epoch_us({_read(table, name)})" if name.endswith("@") else _read(table, name)
            for name in self._names
        )

    @property
    def shown(self) -> str:
        """The select list over the union of files: times as microseconds since 1970."""
        return ", ".join(
            f"epoch_us({_plain(name)})" if name.endswith("@") else _plain(name)
            for name in self._names
        )


def _plain(name: str) -> str:
    return quote_name(name.rstrip("@#"))


def _read(table: HeldTable, name: str) -> str:
    read = {"@": table.time, "#": table.number}.get(name[-1], table.value)
    return read(name.rstrip("@#"))


def row_ranges(
    tables: Iterable[HeldTable], find: Callable[[Lookups], Iterable[Range]]
) -> Iterator[tuple[HeldTable, Range | None]]:
    """The tables that may have what `find` looks for, each with the rows among which it is.

    None is all rows: of a table without lookups nothing is known.
    """
    for table in tables:
        if table.lookups is None:
            yield table, None
        else:
            yield from ((table, place) for place in find(table.lookups))


def union(tables: Iterable[HeldTable], query: Callable[[HeldTable], str]) -> str:
    """SQL for the same query over several tables."""
    return " union all ".join(f"({query(table)})" for table in tables)
