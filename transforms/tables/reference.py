"""The schema reference: all that is known of every table and column, over all schema versions.

Made from the registry and the facts beside it, so it says what the code does. Who shows it (docs,
`schema.json`, a page) only formats it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

from transforms.tables.column_facts import (
    column_meaning,
    enum_names,
    enum_values,
    history_of,
    identity_of,
    table_meaning,
    target_of,
    unit_of,
)
from transforms.tables.conform import conversion
from transforms.tables.registry import (
    HISTORY_TABLES,
    Column,
    KnownTable,
    table_changes,
    tables_ever,
    types_ever,
)

_Fact = TypeVar("_Fact")
_DECIMAL = "DECIMAL(38,10)"  # what the typed view makes of a number that has no set scale


@dataclass(frozen=True, slots=True)
class Versions:
    """Schema versions, `first` to `last`; `last` is None where the newest has it."""

    first: int
    last: int | None = None

    def __str__(self) -> str:
        if self.last is None:
            return f"{self.first} and later"
        return f"{self.first} to {self.last}"


@dataclass(frozen=True, slots=True)
class ColumnReference:
    """A column: `type` as the typed views have it, `source_type` as the network's database has it.

    `target` is the column that it joins to; `values` lists an enum, by number where it is kept as
    one.
    """

    name: str
    type: str
    source_type: str
    meaning: str
    unit: str | None
    target: str | None
    values: tuple[tuple[int | None, str], ...]
    versions: tuple[Versions, ...]


@dataclass(frozen=True, slots=True)
class TableReference:
    """A table, and `kinds`: since which version it is history or current state."""

    name: str
    meaning: str
    kinds: tuple[tuple[Versions, str], ...]
    key: tuple[str, ...]
    identity: tuple[str, ...]
    history: str | None
    latest: str | None
    exported: bool
    columns: tuple[ColumnReference, ...]


@cache
def schema_reference() -> Mapping[str, TableReference]:
    """Every table that a known schema version has or had, by name."""
    return {table: table_reference(table) for table in tables_ever()}


@cache
def table_reference(table: str) -> TableReference:
    """A table that a known schema version has or had."""
    columns = tuple(_column(table, Column(*each)) for each in types_ever(table).items())
    newest = [state for _, state in table_changes(table) if state is not None][-1]
    return TableReference(
        name=table,
        meaning=table_meaning(table),
        kinds=tuple(_kinds(table)),
        key=newest.key,
        identity=identity_of(table),
        history=history_of(table),
        latest=next((other for other in tables_ever() if history_of(other) == table), None),
        exported=table in HISTORY_TABLES,
        columns=columns,
    )


def _kinds(table: str) -> Iterator[tuple[Versions, str]]:
    spans = _spans(table, lambda state: state.kind if state else "")
    return ((versions, kind) for versions, kind in spans if kind)


def _spans(
    table: str, fact: Callable[[KnownTable | None], _Fact]
) -> Iterator[tuple[Versions, _Fact]]:
    """The longest runs of versions in which a fact of a table stays the same, ascending."""
    facts = [(version, fact(state)) for version, state in table_changes(table)]
    starts = [(next(group)[0], value) for value, group in groupby(facts, itemgetter(1))]
    for (first, value), after in zip(starts, [*starts[1:], None], strict=True):
        yield Versions(first, after[0] - 1 if after else None), value


def _column(table: str, column: Column) -> ColumnReference:
    numbers = enum_names(table, column.name)
    values = tuple(numbers.items()) if numbers else ()
    return ColumnReference(
        name=column.name,
        type=_view_type(table, column),
        source_type=column.type,
        meaning=column_meaning(table, column.name),
        unit=unit_of(table, column.name),
        target=target_of(table, column.name),
        values=values or tuple((None, name) for name in enum_values(column.type)),
        versions=tuple(_versions(table, column.name)),
    )


def _view_type(table: str, column: Column) -> str:
    stored_type = conversion(table, column).type
    return _DECIMAL if column.type == "numeric" and stored_type == "VARCHAR" else stored_type


def _versions(table: str, column: str) -> Iterator[Versions]:
    def has_column(state: KnownTable | None) -> bool:
        return state is not None and any(each.name == column for each in state.schema.columns)

    return (versions for versions, has in _spans(table, has_column) if has)
