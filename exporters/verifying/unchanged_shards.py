"""The shards of an archive that are, with their ZIPs, as an earlier check found them.

A shard is unchanged where the store lists the same names, sizes and versions for it, the index has
the same line for it, and the same files of the warehouse tell what should be in it. In a folder its
documents must have the same bytes, too: a disk does not notice that a bit has flipped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.archive.index import ShardSummary
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
    documents: str = ""

    @classmethod
    def of(cls, entries: Sequence[Entry], documents: str = "") -> ShardFacts:
        """Those of a shard with these entries."""
        csvs = sum(len(entry.members) for entry in entries)
        return cls(len(entries), csvs, sum(entry.bytes for entry in entries), documents)


@dataclass
class UnchangedShards:
    """The shards of one archive."""

    archive: Archive
    verification: Verification
    listing: StoreListing
    expected: Expected

    @cached_property
    def summaries(self) -> Mapping[int, ShardSummary]:
        """What the index says of each shard; nothing where it is damaged, which is found later."""
        try:
            return self.archive.index().shards
        except (IntegrityError, OSError):
            return {}

    def find(self, number: int) -> ShardFacts | None:
        """What a quick check need not read again of a shard; None where it must."""
        sound = self.verification.sound
        sound.total += 1
        if not self.verification.is_quick:
            return None
        earlier = sound.earlier.get(self.archive.place(shard_path(number)))
        if earlier is None or earlier != self._proof(number, earlier.digest):
            return None
        facts = ShardFacts(*json.loads(earlier.digest))
        if facts.documents != self._documents(number):
            return None
        sound.rely(earlier)
        return facts

    def add(self, number: int, entries: Sequence[Entry]) -> None:
        """Take in a shard whose entries are what is loaded; it is kept if nothing is wrong."""
        listed = self.listing.shard(self.archive.chain_id, number)
        # What is there besides may be too young to be a stranger: later checks must see it.
        if number in self.summaries and listed.count == 2 * len(entries) + _DOCUMENTS:
            facts = ShardFacts.of(entries, self._documents(number))
            self.verification.sound.fresh.append(self._proof(number, json.dumps(astuple(facts))))

    def _proof(self, number: int, digest: str) -> Proof:
        """The proof of a shard as it is now, if it has what `digest` says."""
        state = self.listing.shard(self.archive.chain_id, number).digest
        summary = self.summaries.get(number)
        row = json.dumps(summary.row) if summary else ""
        facts = (row, self.expected.origin(number), digest)
        recorded = hashlib.sha256("\n".join(facts).encode()).hexdigest()
        return Proof(self.archive.place(shard_path(number)), state, recorded, digest)

    def _documents(self, number: int) -> str:
        """The SHA-256 of a shard's documents; empty where a store proves what it gives out."""
        path = shard_path(number)
        if self.archive.store.path(self.archive.key(path)) is None:
            return ""
        digest = hashlib.sha256()
        for name in (path, hashes_path(number), path.replace(".json", ".html")):
            digest.update(hashlib.sha256(self.archive.read(name) or b"").digest())
        return digest.hexdigest()
