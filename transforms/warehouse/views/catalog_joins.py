"""The catalog's own macros and views for the joins that everybody needs: those of `joins.sql`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from importlib.resources import files

_NEEDS = re.compile(r"^-- needs (.+)$", re.MULTILINE)
_REMARK = re.compile(r"^--.*$", re.MULTILINE)


def joins_of(columns: Mapping[str, Set[str]]) -> Iterator[str]:
    """The statements for a catalog whose tables have these columns, in order."""
    there = {f"{table}.{column}" for table, names in columns.items() for column in names}
    text = files("transforms.warehouse.views").joinpath("joins.sql").read_text("utf-8")
    for paragraph in text.split("\n\n"):
        if there.issuperset(
            name for line in _NEEDS.findall(paragraph) for name in line.split(", ")
        ):
            statements = _REMARK.sub("", paragraph).split(";\n")
            yield from filter(None, (each.strip().removesuffix(";") for each in statements))
