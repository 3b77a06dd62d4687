"""Where a chain's lake lies, for the documents that name it and for the lake itself."""

from __future__ import annotations

LAKE = "lake"
"""The folder of the lake's tables below the chain's folder."""

RECEIPTS = "receipts"
"""The table of what each CSV was: a CSV cannot be rendered without its columns and their order."""

LOG = "_delta_log"
"""The folder of a table's log below the table's, by Delta's protocol."""
