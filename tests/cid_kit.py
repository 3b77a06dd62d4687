"""The network's ids of files."""

from __future__ import annotations

from pathlib import Path

from transforms.segments.cid import CidHasher


def cid_of(path: Path) -> str:
    """The CID of a file."""
    hasher = CidHasher()
    hasher.update(path.read_bytes())
    return hasher.cid()
