"""What servers read of a row: some of a table's columns, as plain values that JSON holds exactly.

A segment may lack a column, or hold cells that no type holds (`_raw`): both are dealt with here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from transforms.duck import quote_name, quote_text


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns that a table has, by their names in lower case, as DuckDB folds case.

    `raw` are those that may have texts in `_raw`.
    """

    names: Mapping[str, str]
    raw: Collection[str]

    @classmethod
    def of(cls, names: Iterable[str], raw: Collection[str]) -> TableColumns:
        """The columns of these names."""
        return cls({name.lower(): name for name in names}, raw)

    def has(self, column: str) -> bool:
        """Whether the table has the column."""
        return column in self.names

    def value(self, column: str) -> str:
        """SQL for the typed value of a column, NULL where there is none."""
        return quote_name(column) if self.has(column) else "null"

    def text(self, column: str) -> str:
        """SQL for the text of a column of text or JSON."""
        return f"{self.value(column)}::varchar"

    def time(self, column: str) -> str:
        """SQL for a TIMESTAMPTZ column."""
        return quote_name(column) if self.has(column) else "null::timestamptz"

    def number(self, column: str) -> str:
        """SQL for the plain text of a number of any size, exact."""
        name = self.names.get(column)
        if name is None:
            return "null::varchar"
        text = f"{quote_name(name)}::varchar"
        if name in self.raw:
            return f"coalesce(_raw[{quote_text(name)}], {text})"
        return text


class RowColumns:
    """Columns of a table in the order in which they are read.

    `names` are separated by spaces; a time ends in `@`, a number that is read as text in `#`, a
    text or JSON in `$`, all others are 64-bit integers, booleans or enumerations at most.
    """

    def __init__(self, names: str) -> None:
        self._names = names.split()

    def inner(self, table: TableColumns) -> str:
        """The select list over one file: every column under its own name."""
        return ", ".join(f"{_read(table, name)} as {_plain(name)}" for name in self._names)

    def direct(self, table: TableColumns) -> str:
        """The select list over one file where no union follows: times as microseconds."""
        return ", ".join(_shown(name, _read(table, name)) for name in self._names)

    @property
    def shown(self) -> str:
        """The select list over the union of files: times as microseconds since 1970."""
        return ", ".join(_shown(name, _plain(name)) for name in self._names)


ORDER = RowColumns(
    "created_at@ id$ vega_time@ version seq_num market_id$ party_id$ side price# size remaining "
    "time_in_force type status expires_at@ reference$ reason updated_at@ batch_id pegged_reference "
    "pegged_offset# lp_id$ post_only reduce_only"
)
"""What an answer has of a row of `orders`."""

WITHDRAWAL = RowColumns(
    "vega_time@ id$ party_id$ amount# asset$ status$ ref$ foreign_tx_hash$ created_timestamp@ "
    "withdrawn_timestamp@ ext$"
)
"""What an answer has of a row of `withdrawals`."""

SIGNATURE = RowColumns("resource_id sig kind")
"""What an answer has of a row of `node_signatures`."""

PROVISION = RowColumns(
    "vega_time@ id$ party_id$ created_at@ updated_at@ market_id$ commitment_amount# fee# sells$ "
    "buys$ version status$ reference$"
)
"""What an answer has of a row of `liquidity_provisions`."""


def _plain(name: str) -> str:
    return quote_name(name.rstrip("@#$"))


def _shown(name: str, value: str) -> str:
    return f"epoch_us({value})" if name.endswith("@") else value


def _read(table: TableColumns, name: str) -> str:
    expression = {"@": table.time, "#": table.number, "$": table.text}.get(name[-1], table.value)
    return expression(name.rstrip("@#$"))
