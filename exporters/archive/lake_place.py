"""Where a chain's lake lies, for the documents that name it and for the lake itself."""

from __future__ import annotations

LAKE = "lake"
"""The folder of the lake's tables below the chain's folder."""

LAKE_PAGE = f"{LAKE}/index.html"
"""The page that links every folder and file of the lake."""

MANIFESTS = "manifests"
"""The table of what was loaded of each segment: of each CSV the columns, rows and SHA-256."""

STATE_MANIFEST = "state_manifest"
"""The table of what is in the newest current state."""

LOG = "_delta_log"
"""The folder of a table's log below the table's, by Delta's protocol."""
