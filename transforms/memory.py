"""What each DuckDB may hold in memory, for settings and defaults; knows no DuckDB itself."""

from __future__ import annotations


def memory_text(megabytes: int) -> str:
    """A bound of memory in DuckDB's notation."""
    return f"{megabytes}MB"


def rendering_text(megabytes: int) -> str:
    """The bound for who renders data files where work may hold so many megabytes.

    A row of many megabytes takes half as much again to render from Parquet as to type: so what is
    loaded can be proven, and published.
    """
    return memory_text(megabytes * 3 // 2)


MEMORY_MB = 600
"""What DuckDB may hold in memory for one piece of work, in MB; more is spilled to disk."""

MEMORY_LIMIT = memory_text(MEMORY_MB)
"""The same in DuckDB's notation."""

RENDERING_LIMIT = rendering_text(MEMORY_MB)
"""The bound for who renders data files then."""
