"""Read the documents of an archive that `SHA256SUMS` lists, and compare them with their hashes."""

from __future__ import annotations

from collections.abc import Mapping

from exporters.archive.archive import Archive
from exporters.archive.hash_lists import SUMS, parse_sums
from exporters.archive.sound_documents import INDEX, LISTED
from transforms.errors import BusyError
from transforms.stores.store import asked_together, content_sha256

_READINGS = 2


def listed_documents(archive: Archive) -> Mapping[str, bytes]:
    """Return `SHA256SUMS` and the documents that it lists, by path, without those of shards.

    Raises `BusyError`, which names a document, where one is gone or differs from the list at the
    second reading, too: a publication writes the list after the documents.
    """
    for _ in range(_READINGS):
        sums = archive.read(SUMS) or b""
        hashes = {INDEX: ""} | parse_sums(sums)
        paths = [path for path in LISTED if path in hashes]
        contents = dict(zip(paths, asked_together(archive.store, archive.read, paths), strict=True))
        documents = {path: data for path, data in contents.items() if data is not None}
        hashed = {path: content_sha256(data) for path, data in documents.items()}
        differing = [path for path in paths if hashed.get(path) != hashes[path]]
        if not differing:
            return {SUMS: sums, **documents}
    raise BusyError(
        f"{archive.place(differing[0])} is not what SHA256SUMS says: the archive is being "
        "published, or its publication was interrupted. Nothing was taken from it: try again "
        "later; its keeper's strata publish ends an interrupted publication"
    )
