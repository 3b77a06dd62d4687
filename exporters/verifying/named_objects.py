"""Objects that something names: each is read, unless it was proven, or it is there, at least."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from exporters.verifying.listing import StoreListing, local_copy
from transforms.errors import IntegrityError
from transforms.machine_errors import MemoryLimitError
from transforms.objects import ObjectInfo
from transforms.stores.store import Store, content_sha256
from transforms.verifying.findings import Finding, Problem, Remedy, unreadable
from transforms.verifying.proofs import Proof
from transforms.verifying.verification import Verification

Content = Callable[[Path], Iterable[Finding]]
"""What is wrong with a copy of an object that hashes as it should."""


@dataclass(frozen=True, slots=True)
class NamedObject:
    """An object that should be there: its bytes, its SHA-256 or how that begins, who names it.

    `missing` mends one that is not there, `altered` one with other bytes.
    """

    key: str
    size: int
    sha256: str
    named_by: str
    missing: Remedy
    altered: Remedy


@dataclass(frozen=True, slots=True)
class NamedObjects:
    """The objects of a store, for one check of it."""

    store: Store
    verification: Verification
    listing: StoreListing

    def find(self, key: str) -> ObjectInfo | None:
        """An object as listed; a listing is not believed, what it lacks is asked for by name."""
        return self.listing.find(key) or self.store.head(key)

    def present(self, item: NamedObject) -> Iterator[Finding]:
        """What a sample leaves out is there, at least, with all its bytes."""
        info, place = self.find(item.key), self.store.describe(item.key)
        if info is None:
            what = f"{item.named_by} names it, and it is not there"
            yield Finding(Problem.MISSING, place, what, item.missing)
        elif info.size != item.size:
            what = f"it has {info.size} bytes, not {item.size}"
            yield Finding(Problem.ALTERED, place, what, item.altered)

    def read(self, item: NamedObject, scratch: Path, content: Content) -> list[Finding]:
        """What is wrong with an object, whose copy in `scratch` is hashed, and then looked into."""
        place = self.store.describe(item.key)
        try:
            with local_copy(self.store, item.key, scratch, "file.parquet") as copy:
                sha256 = content_sha256(copy)
                if sha256.startswith(item.sha256):
                    return [*content(copy)]
            what = f"it hashes to {sha256}, which is not what its name says"
            return [Finding(Problem.ALTERED, place, what, item.altered)]
        except FileNotFoundError:
            what = f"{item.named_by} names it, and it is not there"
            return [Finding(Problem.MISSING, place, what, item.missing)]
        except IntegrityError as error:
            return [Finding(Problem.ALTERED, place, str(error), item.altered)]
        except MemoryLimitError:  # nothing is wrong with the object
            raise
        except OSError as error:
            return [Finding(Problem.UNREADABLE, place, unreadable(error, place), item.altered)]

    def unproven(
        self, keys: Sequence[str], facts: str, read: Callable[[], list[Finding]]
    ) -> list[Finding]:
        """What `read` finds wrong with objects that are held against facts.

        Nothing where the part of this check that was interrupted has proven them. A sample is read.
        """
        if self.verification.is_quick:
            return read()
        versions = [info.version if (info := self.find(key)) else "" for key in keys]
        state = " ".join(versions) if all(versions) else ""
        recorded = hashlib.sha256(facts.encode()).hexdigest()
        proof = Proof(self.store.describe(keys[0]), state, recorded)
        if self.verification.proven.has(proof):
            return []
        findings = read()
        if not findings:
            self.verification.proven.keep(proof)
        return findings
