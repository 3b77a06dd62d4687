"""What the tables and columns mean, beside the data: `schema.json` and `schema.html` of a chain.

They follow from the code alone. They lie in the chain's folder, as that is copied and verified as a
whole.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import Any

from exporters.archive.json_text import FORMAT, written
from exporters.archive.templating import render
from transforms.tables.reference import schema_reference


@cache
def schema_json(chain_id: str) -> bytes:
    """The schema reference, without what is empty or not known."""
    tables = [asdict(table, dict_factory=_known) for table in schema_reference().values()]
    return written({"format": FORMAT, "chain_id": chain_id, "tables": tables})


def _known(members: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in members if value not in (None, ())}


@cache
def schema_page(chain_id: str) -> bytes:
    """The same for people."""
    tables = schema_reference().values()
    return render("exporters.archive", "schema.html", chain_id=chain_id, tables=tables)
