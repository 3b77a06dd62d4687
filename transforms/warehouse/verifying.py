"""Proving every table of every volume against its receipt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from pathlib import Path

from transforms.errors import IntegrityError
from transforms.objects import StoredFile
from transforms.scratch import scratch_folder
from transforms.stores.store import content_sha256
from transforms.warehouse.catalog import Catalog
from transforms.warehouse.receipts import Receipt
from transforms.warehouse.record import recorded_receipts
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
            held: list[Receipt] = []
            for receipt, digest in volume_digests(path, folder):
                held.append(receipt)
                what = f"{volume.key}: {receipt.table} of segment {receipt.blocks}"
                same = digest == receipt.sha256
                problem = "" if same else f"renders to SHA-256 {digest}, not {receipt.sha256}"
                yield receipt, what, problem
            if volume.record is not None and not _agrees(catalog, volume.record, held):
                yield None, volume.record.key, "it is not what its volume says: run strata repair"
    except (FileNotFoundError, IntegrityError) as error:
        yield None, volume.key, str(error)


def _agrees(catalog: Catalog, record: StoredFile, held: Iterable[Receipt]) -> bool:
    """Whether a record has the receipts of its volume, and the bytes that the log names."""
    catalog.files.bring([record])
    path = catalog.files.path(record)
    order = attrgetter("blocks", "table")
    same = sorted(held, key=order) == list(recorded_receipts([path]))
    return same and content_sha256(path) == record.sha256
