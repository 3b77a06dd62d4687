"""What the tables and columns mean, beside the data: `schema.json` and `schema.html` of a chain.

They follow from the code alone. They lie in the chain's folder, as a Data Package may only name
files below itself, and as a chain's folder is copied and verified as a whole.
"""

from __future__ import annotations

import re
from functools import cache

from exporters.archive.json_text import FORMAT, written
from exporters.archive.templating import render
from transforms.tables.reference import schema_reference
from transforms.tables.registry import HISTORY_TABLES
from transforms.tables.table_schema import data_package


@cache
def schema_json(chain_id: str) -> bytes:
    """The Data Package of a chain: published tables have their folders as path, others no rows."""
    # The standard allows no other characters in a name.
    name = re.sub(r"[^a-z0-9._-]+", "-", chain_id.lower()) or "chain"
    package = data_package(
        name,
        f"Network history of {chain_id}",
        lambda table: f"{table}/" if table in HISTORY_TABLES else None,
    )
    return written({"format": FORMAT, **package})


@cache
def schema_page(chain_id: str) -> bytes:
    """The same for people."""
    tables = schema_reference().values()
    return render("exporters.archive", "schema.html", chain_id=chain_id, tables=tables)
