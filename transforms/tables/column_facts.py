"""Units of columns, what joins to what, and what a row is about: facts beyond the registry's.

They lie in `relations.json`. A column's own fact comes first, then that of the history table whose
latest rows its table keeps, then what the name means in every table. The values of enums of the
network's database lie in `enum_values.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from transforms.tables.meanings import history_of

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
