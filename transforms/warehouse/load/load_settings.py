"""What whoever opens a warehouse says of its loads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """What a load may use: DuckDB threads, CSV bytes per volume.

    `require_id_chain` lets it refuse a segment that contradicts the chain of the network's ids.
    """

    threads: int = 1
    max_volume_bytes: int = 2 * 2**30
    require_id_chain: bool = False


Progress = Callable[[int], None]
"""Called with the bytes that were just done."""
