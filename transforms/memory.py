"""What each DuckDB may hold in memory, for settings and defaults; knows no DuckDB itself."""

from __future__ import annotations


def memory_text(megabytes: int) -> str:
    """A bound of memory in DuckDB's notation."""
    return f"{megabytes}MB"


MEMORY_MB = 600
"""What DuckDB may hold in memory for one piece of work, in MB; more is spilled to disk."""

MEMORY_LIMIT = memory_text(MEMORY_MB)
"""The same in DuckDB's notation."""
