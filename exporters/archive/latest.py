"""`latest.json` of a chain: a few hundred bytes to poll, how far it goes and where things are.

format, chain_id
first_block, last_block, first_time, last_time, complete_until   as in the index
newest      from, to, first_time, last_time of the segment with the highest blocks; or null
index       path, bytes, sha256 of the index
documents   where everything else is, below the chain's folder
"""

from __future__ import annotations

import hashlib

from exporters.archive.entries import Json, range_json, times_json
from exporters.archive.index import ArchiveIndex, extent_json
from exporters.archive.json_text import written
from exporters.archive.recent import PublishedSegment
from exporters.archive.sums import completeness


def latest_json(
    index: ArchiveIndex, data: bytes, newest: PublishedSegment | None, documents: Json
) -> bytes:
    """The document over an index that is stored as `data`; `documents` has paths by name."""
    return written(
        {
            **extent_json(index, completeness(index.tables)),
            "newest": range_json(newest.blocks) | times_json(newest.times) if newest else None,
            "index": {
                "path": "index.json",
                "bytes": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
            },
            "documents": documents,
        }
    )
