"""An archive of which only what is signed is believed.

The signature is that of `SHA256SUMS`, which has the hash of every other document; shards have those
of the ZIPs. So whoever answers, nothing is taken that the owner of the key did not publish.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from exporters.archive.archive import Archive
from exporters.archive.hash_lists import ENDING, SUMS, parse_sums
from exporters.signing_keys import PublicKey, check_signature
from transforms.errors import IntegrityError
from transforms.stores.read_only import ReadOnlyStore
from transforms.stores.store import Store

_PROVEN_OTHERWISE = (".zip", ".zip.sha256", ".html", ENDING, f"/{SUMS}")
"""ZIPs by their entries, hash files by their ZIPs; pages are not read."""


def signed_archive(archive: Archive, public_key: PublicKey) -> Archive:
    """The archive, each document of which is held against the signed list when it is read.

    Raises `IntegrityError` where the list is not signed by the key.
    """
    place = archive.place(SUMS)
    sums, signature = archive.read(SUMS), archive.read(f"{SUMS}{ENDING}")
    if sums is None or signature is None:
        raise IntegrityError(
            f"{place} is not there, or not signed: fetch without --key what nobody vouches for, or "
            "ask who publishes it to sign it"
        )
    check_signature(sums, signature, public_key, place)
    hashes = {archive.key(path): sha256 for path, sha256 in parse_sums(sums).items()}
    return Archive(_SignedStore(archive.store, archive.key(""), hashes), archive.chain_id)


class _SignedStore(ReadOnlyStore):
    """A store for reading, whose documents below a prefix have the hashes that are named."""

    def __init__(self, store: Store, prefix: str, hashes: Mapping[str, str]) -> None:
        super().__init__(store)
        self._prefix = prefix
        self._hashes = hashes

    def read(
        self, key: str, start: int = 0, length: int | None = None, *, version: str | None = None
    ) -> bytes:
        """As stored, if it is what was signed. Raises `IntegrityError` otherwise."""
        if not key.startswith(self._prefix) or key.endswith(_PROVEN_OTHERWISE):
            return self.store.read(key, start, length, version=version)
        whole = self.store.read(key, version=version)
        if hashlib.sha256(whole).hexdigest() != self._hashes.get(key):
            raise IntegrityError(
                f"{self.describe(key)} is not what the signed {SUMS} names: try again, as a "
                "publisher may be at work; if it stays so, tell who publishes it"
            )
        return whole[start : None if length is None else start + length]
