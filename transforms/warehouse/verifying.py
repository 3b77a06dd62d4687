"""Proving every table of every volume against its receipt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from transforms.errors import IntegrityError
from transforms.scratch import scratch_folder
from transforms.stores.store import content_sha256
from transforms.warehouse.catalog import Catalog
from transforms.warehouse.receipts import Receipt
from transforms.warehouse.rendering import REMEDY, volume_digests
from transforms.warehouse.shapes import Volume


def verify_volumes(
    catalog: Catalog, scratch: Path, progress: Callable[[int, int], None]
) -> Iterator[tuple[str, str]]:
    """Prove every table of every volume against its receipt; yields (what, problem or "").

    Each table of each segment is rendered again and hashed; memory stays bounded. `progress` is
    called with how many tables of volumes were read and how many there are.
    """
    done, total = 0, sum(len(volume.shapes) for volume in catalog.volumes)
    for volume in catalog.volumes:
        begun: set[str] = set()
        for receipt, what, problem in _verified(catalog, volume, scratch):
            if receipt and receipt.table not in begun:
                progress(done + len(begun), total)
                begun.add(receipt.table)
            yield what, problem
        done += len(volume.shapes)
        progress(done, total)


def _verified(
    catalog: Catalog, volume: Volume, scratch: Path
) -> Iterator[tuple[Receipt | None, str, str]]:
    if volume in catalog.lost:
        yield (
            None,
            volume.key,
            "the volume is missing, or has another size: load its segments again",
        )
        return
    try:
        catalog.files.bring([volume.file])
        path = catalog.files.path(volume.file)
        if (found := content_sha256(path)) != volume.file.sha256:
            yield None, volume.key, f"it hashes to {found}, not as when it was written: {REMEDY}"
        with scratch_folder(scratch) as folder:
            for receipt, digest in volume_digests(path, folder):
                what = f"{volume.key}: {receipt.table} of segment {receipt.blocks}"
                same = digest == receipt.sha256
                problem = "" if same else f"renders to SHA-256 {digest}, not {receipt.sha256}"
                yield receipt, what, problem
    except IntegrityError as error:
        yield None, volume.key, str(error)
