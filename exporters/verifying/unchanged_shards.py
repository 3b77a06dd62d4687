"""The shards of an archive that are, with their ZIPs, as an earlier check found them.

A shard is unchanged where the store lists the same names, sizes and versions for it, the index has
the same line for it, and the same files of the warehouse tell what should be in it. In a folder its
documents must have the same bytes, too: a disk does not notice that a bit has flipped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.archive.shards import hashes_path, shard_path
from exporters.verifying.expected import Expected
from exporters.verifying.listing import StoreListing
from transforms.errors import IntegrityError
from transforms.verifying.proofs import Proof
from transforms.verifying.verification import Verification

_DOCUMENTS = 3
"""Of a shard: itself, its hash list and its page."""


@dataclass(frozen=True, slots=True)
class ShardFacts:
    """How much a shard has, in ZIPs, CSVs and bytes, and the SHA-256 of its documents.

    `documents` is empty where the store itself proves what it gives out.
    """

    zips: int
    csvs: int
    bytes: int
    documents: str

    @classmethod
    def of(cls, entries: Sequence[Entry], documents: str) -> ShardFacts:
        """Those of a shard with these entries."""
        csvs = sum(len(entry.members) for entry in entries)
        return cls(len(entries), csvs, sum(entry.bytes for entry in entries), documents)

    def without(self, entries: Sequence[Entry]) -> ShardFacts:
        """The same without some of its entries."""
        others = ShardFacts.of(entries, self.documents)
        rest = (self.zips - others.zips, self.csvs - others.csvs, self.bytes - others.bytes)
        return ShardFacts(*rest, self.documents)


@dataclass
class UnchangedShards:
    """The shards of one archive; none is unchanged where the store was not listed."""

    archive: Archive
    verification: Verification
    listing: StoreListing | None
    expected: Expected

    @cached_property
    def lines(self) -> Mapping[int, str]:
        """What the index says of each shard; nothing where it is damaged, which is found later."""
        try:
            return self.archive.index().lines
        except (IntegrityError, OSError):
            return {}

    def find(self, number: int) -> ShardFacts | None:
        """What a quick check need not read again of a shard; None where it must."""
        sound = self.verification.sound
        if self.listing is None:
            return None
        sound.total += 1
        earlier = sound.find(self._place(number)) if self.verification.is_quick else None
        if earlier is None or earlier != self._proof(number, earlier.digest):
            return None
        facts = ShardFacts(*json.loads(earlier.digest))
        if facts.documents != self._documents(number):
            return None
        sound.rely(earlier)
        return facts

    def add(self, number: int, entries: Sequence[Entry]) -> None:
        """Take in a shard whose entries are what is loaded; it is kept if nothing is wrong."""
        if self.listing is None or number not in self.lines:
            return
        # What is there besides may be too young to be a stranger: later checks must see it.
        if self.listing.shard(self.archive.chain_id, number).count == 2 * len(entries) + _DOCUMENTS:
            facts = ShardFacts.of(entries, self._documents(number))
            self.verification.sound.add(self._proof(number, json.dumps(astuple(facts))))

    def _place(self, number: int) -> str:
        return self.archive.place(shard_path(number))

    def _proof(self, number: int, digest: str) -> Proof:
        """The proof of a shard as it is now, if it has what `digest` says."""
        assert self.listing is not None
        state = self.listing.shard(self.archive.chain_id, number).digest
        facts = (self.lines.get(number, ""), self.expected.origin(number), digest)
        recorded = hashlib.sha256("\n".join(facts).encode()).hexdigest()
        return Proof(self._place(number), state, recorded, digest)

    def _documents(self, number: int) -> str:
        """The SHA-256 of a shard's documents; empty where a store proves what it gives out."""
        if self.archive.store.path(self._key(number)) is None:
            return ""
        digest = hashlib.sha256()
        for data in self._contents(number):
            digest.update(hashlib.sha256(data).digest())
        return digest.hexdigest()

    def _key(self, number: int) -> str:
        return self.archive.key(shard_path(number))

    def _contents(self, number: int) -> Iterator[bytes]:
        page = shard_path(number).replace(".json", ".html")
        for path in (shard_path(number), hashes_path(number), page):
            yield self.archive.read(path) or b""
