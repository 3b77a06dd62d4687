"""Which columns are enums, and the names of values that are numbers (spec 2.5 and 7.2).

Enums that PostgreSQL knows as types are names in a segment already, as are some columns of text.
The numbers lie in `enum_numbers.json`: a name in the place of each, null where the network reserves
it. The last three order errors came with later releases than the specification describes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from transforms.tables.meanings import is_enum
from transforms.tables.registry import Column

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
