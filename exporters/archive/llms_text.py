"""`llms.txt` of a chain: tables, units, traps and queries as one text, for language models.

It follows from the tables' registry and the archive's public address. Its queries are those of the
cookbook.
"""

from __future__ import annotations

from functools import cache

from exporters.archive.public_sql import shown_address
from exporters.archive.templating import render
from transforms.tables.reference import schema_reference


@cache
def llms_txt(chain_id: str, address: str) -> bytes:
    """The text of a chain; `address` is where anybody reads its folder, or empty."""
    tables = schema_reference().values()
    place = shown_address(address, chain_id)
    return render(
        "exporters.archive",
        "llms.txt",
        chain_id=chain_id,
        address=place,
        root=place.rpartition("/")[0],
        published=[table for table in tables if table.exported],
        others=[table for table in tables if not table.exported],
    )
