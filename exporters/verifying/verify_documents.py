"""The documents of an archive: each is computed again, and signatures are held against a key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from exporters.archive.archive import CHAINS, Archive, chains, read_small
from exporters.archive.documents import (
    ArchiveDocument,
    Wave,
    chain_documents,
    documents,
    shard_documents,
)
from exporters.archive.hash_lists import ENDING, SIGNATURES, SUMS, parse_sums
from exporters.archive.lake_place import LAKE
from exporters.archive.public_sql import PUBLIC_DATABASE, PUBLIC_SQL, unsealed_sql
from exporters.archive.revisions import REVISIONS, parse_revisions
from exporters.archive.sound_documents import INDEX
from exporters.signing_keys import PublicKey, check_signature
from exporters.verifying.listing import StoreListing
from transforms.errors import IntegrityError
from transforms.lake.public_views import file_lists
from transforms.stores.store import content_sha256
from transforms.verifying.findings import Finding, Problem, Remedy, read_findings
from transforms.verifying.verification import Verification

_PUT_BACK = Remedy((), "put it back from a mirror or a backup: nothing else says this")
_SIGN = Remedy(("strata publish",), "with STRATA_SIGNING_KEY set to the right key")


@dataclass(frozen=True, slots=True)
class DocumentsCheck:
    """The check of one chain's documents."""

    archive: Archive
    verification: Verification
    remedy: Remedy

    def of_shard(self, number: int) -> Iterator[Finding]:
        """Compute what follows from a sound shard alone, and compare it with what is there."""
        for document in shard_documents(self.archive, number):
            yield from self._document(document)

    def of_all(self, numbers: Sequence[int]) -> Iterator[Finding]:
        """Compute what follows from these shards together, and compare it with what is there.

        They are sound. Where something is wrong, what is written after it is not compared, as it
        may follow from that.
        """
        place = self.archive.place(REVISIONS)
        for finding in read_findings(place, self._revisions_problem, _PUT_BACK):
            yield finding
            return
        damaged = Wave.SIGNATURES
        for document in chain_documents(self.archive, numbers):
            if document.wave > damaged:
                return
            for finding in self._document(document):
                damaged = document.wave
                yield finding
                if document.key == CHAINS:
                    return

    def _document(self, document: ArchiveDocument) -> Iterator[Finding]:
        place = self.archive.store.describe(document.key)
        yield from read_findings(place, partial(self._problem, document), self.remedy)

    def _problem(self, document: ArchiveDocument) -> str:
        archive = self.archive
        stored = read_small(archive.store, document.key)
        if stored is None:
            raise FileNotFoundError(document.key)
        self.verification.took_document()
        if document.key == archive.key(INDEX):
            archive.index()
        elif document.key == CHAINS:
            chains(archive.store)
        is_right = stored == document.content(stored)
        return "" if is_right else "it does not follow from what is published"

    def _revisions_problem(self) -> str:
        stored = self.archive.read(REVISIONS)
        if stored is not None:
            self.verification.took_document()
            parse_revisions(stored, self.archive)
        elif REVISIONS in parse_sums(self.archive.read(SUMS) or b""):
            raise FileNotFoundError(REVISIONS)
        return ""


def document_keys(archive: Archive, numbers: Sequence[int]) -> Iterator[str]:
    """The keys of all documents, besides the shards."""
    other = (REVISIONS, PUBLIC_SQL, PUBLIC_DATABASE)
    yield from (archive.key(name) for name in other)
    yield from (archive.key(f"{name}{ENDING}") for name in SIGNATURES)
    yield from (document.key for document in documents(archive, numbers))


def signature_findings(archive: Archive, public_key: PublicKey) -> Iterator[Finding]:
    """Yield which documents of a chain are not signed by the key."""
    for name in SIGNATURES:
        read = partial(_signature_problem, archive, name, public_key)
        yield from read_findings(archive.place(f"{name}{ENDING}"), read, _SIGN)


def _signature_problem(archive: Archive, name: str, public_key: PublicKey) -> str:
    data, signature = archive.read(name), archive.read(f"{name}{ENDING}")
    if data is not None:  # that it is gone is found where it is read
        if signature is None:
            raise FileNotFoundError(f"{name}{ENDING}")
        check_signature(data, signature, public_key, archive.place(name))
    return ""


def public_findings(
    archive: Archive, verification: Verification, listing: StoreListing, remedy: Remedy
) -> Iterator[Finding]:
    """Yield what is wrong with the SQL of a chain and its database; nothing where it has none."""
    data, place = archive.read(PUBLIC_SQL), archive.place(PUBLIC_SQL)
    if data is None:
        return
    again = Remedy(remedy.commands, remedy.note or "with STRATA_PUBLIC_URL set")
    verification.took_document()
    try:
        statements, sha256 = unsealed_sql(data, place)
    except IntegrityError as error:  # nothing else says what the database should be
        yield Finding(Problem.DAMAGED, place, str(error), again)
        return
    has_lake = next(listing.left(archive.key(f"{LAKE}/")), None)  # a mirror may have none
    for files in file_lists(statements) if has_lake else ():
        for name in files.files:
            path = f"{LAKE}/{files.table}/{name}"
            if listing.find(archive.key(path)) is None:
                what = f"it names {path}, which is not there"
                yield Finding(Problem.DAMAGED, place, what, again)
    database, place = archive.read(PUBLIC_DATABASE), archive.place(PUBLIC_DATABASE)
    if database is None:
        yield Finding(Problem.MISSING, place, "it is missing", again)
    elif content_sha256(database) != sha256:
        what = f"it does not hash to the SHA-256 that {PUBLIC_SQL} has of it"
        yield Finding(Problem.DAMAGED, place, what, again)
