"""An export as a file, with its SHA-256 beside it as `sha256sum` reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from exporters.zips.layout import Layout
from transforms.files import new_file
from transforms.stores.store import content_sha256


def write_hashed(
    layout: Layout, path: Path, progress: Callable[[int], object] = lambda _bytes: None
) -> str:
    """Write the ZIP to `path` and its hash to `<path>.sha256`; returns the hash, in hex.

    The file is read again for it, as the kernel copied most of it: what is hashed is what lies
    there. Raises what `Layout.write` raises.
    """
    beside = path.with_name(f"{path.name}.sha256")
    beside.unlink(missing_ok=True)  # until the ZIP is there it is that of an earlier one
    layout.write(path, progress=progress)
    sha256 = content_sha256(path)
    with new_file(beside) as file:
        file.write(f"{sha256}  {path.name}\n".encode())
    return sha256
