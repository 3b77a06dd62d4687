"""Small texts that several parts of a page share."""

from __future__ import annotations

from transforms.blocks import BlockRange

EXPORT = "/api/v2/networkhistory/export"
"""The path of the download."""


def blocks_text(blocks: BlockRange) -> str:
    """A range for a person."""
    return f"{blocks.first:,} to {blocks.last:,}"


def size_text(count: int) -> str:
    """A number of bytes for a person."""
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
