"""The keys of the assets: what checks, jobs and other assets name them by."""

from __future__ import annotations

import dagster as dg

WAREHOUSE = "warehouse"
"""The group of what lies in the warehouse."""
ARCHIVE = "archive"
"""The group of what is published."""

LAKE = "lake"
"""The group of the Delta tables beside the ZIPs."""

CURRENT_STATE = dg.AssetKey([WAREHOUSE, "current_state"])
INDEX = dg.AssetKey([ARCHIVE, "index"])
LAKE_TABLES = dg.AssetKey([LAKE, "tables"])


def table_key(table: str) -> dg.AssetKey:
    """The asset of a history table in the warehouse."""
    return dg.AssetKey([WAREHOUSE, table])


def export_key(table: str) -> dg.AssetKey:
    """The asset of a table's published exports."""
    return dg.AssetKey([ARCHIVE, table])
