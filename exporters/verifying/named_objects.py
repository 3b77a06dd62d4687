"""Objects that something names: each is read, unless it was proven, or it is there, at least."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from exporters.verifying.listing import StoreListing
from transforms.objects import ObjectInfo
from transforms.stores.store import Store
from transforms.verifying.findings import Finding, Problem, Remedy
from transforms.verifying.proofs import Proof
from transforms.verifying.verification import Verification


@dataclass(frozen=True, slots=True)
class NamedObjects:
    """The objects of a store, for one check of it."""

    store: Store
    verification: Verification
    listing: StoreListing

    def find(self, key: str) -> ObjectInfo | None:
        """An object as listed; a listing is not believed, what it lacks is asked for by name."""
        return self.listing.find(key) or self.store.head(key)

    def present(
        self, key: str, size: int, named_by: str, missing: Remedy, altered: Remedy
    ) -> Iterator[Finding]:
        """What a sample leaves out is there, at least, with all its bytes."""
        info, place = self.find(key), self.store.describe(key)
        if info is None:
            what = f"{named_by} names it, and it is not there"
            yield Finding(Problem.MISSING, place, what, missing)
        elif info.size != size:
            what = f"it has {info.size} bytes, not {size}"
            yield Finding(Problem.ALTERED, place, what, altered)

    def unproven(
        self, keys: Sequence[str], facts: str, read: Callable[[], list[Finding]]
    ) -> list[Finding] | None:
        """What `read` finds wrong with objects that are held against facts.

        None where the part of this check that was interrupted has proven them. A sample is read.
        """
        if self.verification.is_quick:
            return read()
        versions = [info.version if (info := self.find(key)) else "" for key in keys]
        state = " ".join(versions) if all(versions) else ""
        recorded = hashlib.sha256(facts.encode()).hexdigest()
        proof = Proof(self.store.describe(keys[0]), state, recorded)
        if self.verification.proven.has(proof):
            return None
        findings = read()
        if not findings:
            self.verification.proven.keep(proof)
        return findings
