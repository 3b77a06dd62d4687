"""Units of columns, what joins to what, what a row is about, and the names of enums' values.

These facts beyond the registry's lie in `relations.json`. A column's own fact comes first, then
that of the history table whose latest rows its table keeps, then what the name means in every
table. Values of enums of the network's database lie in `enum_values.json`; some columns of text
hold enums, too. The numbers of others (spec 2.5 and 7.2) lie in `enum_numbers.json`: a name in the
place of each, null where the network reserves it. The last three order errors came with later
releases than the specification describes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from transforms.tables.meanings import history_of, is_enum
from transforms.tables.registry import Column

MARKET_UNITS: Mapping[str, str] = {
    "price": "markets.decimal_places",
    "size": "markets.position_decimal_places",
}
"""Units that depend on the market, and where their decimals are."""

ASSET_UNITS = ("asset", "settlement asset", "staking asset")
"""Units that depend on an asset: its smallest unit; `assets.decimals` has their decimals."""


@cache
def _facts() -> Mapping[str, Any]:
    content: dict[str, Any] = json.loads(_read("relations.json"))
    return content


@cache
def _enums() -> Mapping[str, list[str]]:
    content: dict[str, list[str]] = json.loads(_read("enum_values.json"))
    return content


def _read(name: str) -> bytes:
    return files("transforms.tables").joinpath(name).read_bytes()


def unit_of(table: str, column: str) -> str | None:
    """The unit of a column's numbers; None where they have none, or none is known."""
    return _fact("units", table, column)


def target_of(table: str, column: str) -> str | None:
    """The column that this one joins to, `parties.id`; of an array, each of its values does."""
    target = _fact("joins", table, column)
    return None if target == f"{table}.{column}" else target


def _fact(kind: str, table: str, column: str) -> str | None:
    facts = _facts()[kind]
    for source in (table, history_of(table) or ""):
        fact: str | None = facts["columns"].get(source, {}).get(column)
        if fact:
            return fact
    by_name: str | None = facts["names"].get(column)
    return by_name


def identity_of(table: str) -> tuple[str, ...]:
    """The columns that say what a row is about, of a table with several rows of the same thing.

    Empty where each row stands for itself.
    """
    return tuple(_facts()["identities"].get(table, ()))


def enum_values(type_name: str) -> tuple[str, ...]:
    """All values that an enum of the network's database has or had; empty for other types."""
    return tuple(_enums().get(type_name, ()))


_TEXTS = frozenset({("ledger", "type"), ("rewards", "reward_type")})
"""Enums that the network's database keeps as the names, in columns of text."""


@cache
def _names() -> Mapping[tuple[str, str], Mapping[int, str]]:
    """The names of the numbers by table and column."""
    content = json.loads(files("transforms.tables").joinpath("enum_numbers.json").read_bytes())
    enums = {
        enum: MappingProxyType({number: name for number, name in enumerate(names) if name})
        for enum, names in content["enums"].items()
    }
    return {
        (table, column): enums[enum]
        for table, columns in content["columns"].items()
        for column, enum in columns.items()
    }


def enum_names(table: str, column: str) -> Mapping[int, str] | None:
    """The full name of each number in a column, or None where the column holds no enum number.

    A number without a name comes from a newer network and stays a number.
    """
    return _names().get((table, column))


def is_enum_name(table: str, column: Column) -> bool:
    """Whether a column holds the names of an enum's values."""
    return is_enum(column.type) or (table, column.name) in _TEXTS


NAMES: Mapping[str, str] = {
    "00": "VOTE",
    "03": "network",
    "04": "XYZalpha",
    "05": "XYZbeta",
    "06": "XYZdelta",
    "07": "XYZepsilon",
    "08": "XYZgamma",
    "09": "fBTC",
    "0a": "fDAI",
    "0b": "fEURO",
    "0c": "fUSDC",
}
"""The names by lower-case hex."""

HEX_OF: Mapping[str, str] = {name: text for text, name in NAMES.items()}
"""The other way."""
