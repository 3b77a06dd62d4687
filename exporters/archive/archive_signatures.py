"""The signatures beside a chain's documents: what is signed, and what the signature says of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from exporters.archive.archive import Archive
from exporters.archive.hash_lists import SUMS
from exporters.archive.sums import completeness

if TYPE_CHECKING:
    from exporters.signing_keys import Signer

ENDING = ".minisig"
"""What follows a file's name in that of its signature."""

SIGNATURES = (SUMS, "index.json")
"""The documents that are signed; whatever else there is follows from them, or hashes to them."""


def signature(archive: Archive, signer: Signer, name: str, old: bytes | None) -> bytes:
    """The signature of a stored document: the one that is there, as long as it is right.

    So nothing is signed again that did not change, and the time in it is that of the change.
    """
    data = archive.read(name) or b""
    if old is not None and signer.has_signed(data, old):
        return old
    extent = completeness(archive.index().tables)
    blocks = f"block {extent.span.last}" if extent.span else "no block"
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    comment = f"chain {archive.chain_id}, up to {blocks}, file {name}, signed {now}"
    return signer.sign(data, comment)
