"""What tables and columns mean: sentences, units, what joins to what, the names of enums' values.

These facts beyond the registry's lie in `meanings.json` and `relations.json`. A column's own fact
comes first, then that of the history table whose latest rows its table keeps, then what the name
means in every table. Values of enums of the network's database lie in `enum_values.json`; some
columns of text hold enums, too. The numbers of others (spec 2.5 and 7.2) lie in
`enum_numbers.json`: a name in the place of each, null where the network reserves it. The last three
order errors came with later releases than the specification describes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from transforms.tables.registry import UNKNOWN_TYPE, Column, known_table, read_facts

_NEWEST_VERSION = 2**31 - 1


def table_meaning(table: str) -> str:
    """One sentence on what a table holds; the table's name where nothing is known of it."""
    meaning: str = read_facts("meanings")["tables"].get(table, f"The network's table {table}.")
    return meaning


def history_of(table: str) -> str | None:
    """The history table whose latest rows a table keeps."""
    history: str | None = read_facts("meanings")["twins"].get(table)
    return history


def column_meaning(table: str, column: str) -> str:
    """One sentence on what a column means, its unit and what NULL, 0 or empty stand for.

    Never raises: of a column that is known from nowhere it says so.
    """
    return _fact(read_facts("meanings"), table, column) or _by_type(table, column)


def unit_of(table: str, column: str) -> str | None:
    """The unit of a column's numbers; None where they have none, or none is known."""
    return _fact(read_facts("relations")["units"], table, column)


def target_of(table: str, column: str) -> str | None:
    """The column that this one joins to, `parties.id`; of an array, each of its values does."""
    target = _fact(read_facts("relations")["joins"], table, column)
    return None if target == f"{table}.{column}" else target


def _fact(facts: Mapping[str, Any], table: str, column: str) -> str | None:
    for source in (table, history_of(table)):
        fact: str | None = facts["columns"].get(source, {}).get(column)
        if fact:
            return fact
    by_name: str | None = facts["names"].get(column)
    return by_name


def _by_type(table: str, column: str) -> str:
    """The column's name in words and the kind of its values."""
    state = known_table(table, _NEWEST_VERSION)
    types = {each.name: each.type for each in state.schema.columns} if state else {}
    words = column.replace("_", " ").capitalize()
    kinds = read_facts("meanings")["types"]
    return f"{words}: {kinds.get(types.get(column, UNKNOWN_TYPE), 'a name')}."


def type_caveat(duckdb_type: str, table: str) -> str:
    """What to mind of a DuckDB type's values in `main.<table>`; empty where there is nothing."""
    caveat: str = read_facts("meanings")["caveats"].get(duckdb_type, "")
    return caveat.format(table=table)


def identity_of(table: str) -> tuple[str, ...]:
    """The columns that say what a row is about, of a table with several rows of the same thing.

    Empty where each row stands for itself.
    """
    return tuple(read_facts("relations")["identities"].get(table, ()))


def enum_values(type_name: str) -> tuple[str, ...]:
    """All values that an enum of the network's database has or had; empty for other types."""
    return tuple(read_facts("enum_values").get(type_name, ()))


_TEXTS = frozenset({("ledger", "type"), ("rewards", "reward_type")})
"""Enums that the network's database keeps as the names, in columns of text."""


@cache
def enum_names(table: str, column: str) -> Mapping[int, str] | None:
    """The full name of each number in a column, or None where the column holds no enum number.

    A number without a name comes from a newer network and stays a number.
    """
    numbers = read_facts("enum_numbers")
    enum = numbers["columns"].get(table, {}).get(column)
    if enum is None:
        return None
    names = enumerate(numbers["enums"][enum])
    return MappingProxyType({number: name for number, name in names if name})


def is_enum_name(table: str, column: Column) -> bool:
    """Whether a column holds the names of an enum's values: other types have a text of theirs."""
    is_enum = column.type not in read_facts("meanings")["types"]
    return is_enum or (table, column.name) in _TEXTS


NAMES: Mapping[str, str] = read_facts("well_known_ids")
"""The names of the network's own short ids, by lower-case hex."""

HEX_OF: Mapping[str, str] = {name: text for text, name in NAMES.items()}
"""The other way."""
