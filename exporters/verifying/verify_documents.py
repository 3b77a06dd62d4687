"""The documents of an archive: each is computed again, and signatures are held against a key."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

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
from exporters.archive.sound_documents import HOME, INDEX
from exporters.signing_keys import PublicKey, check_signature
from exporters.verifying.listing import StoreListing
from transforms.errors import IntegrityError
from transforms.lake.public_views import file_lists
from transforms.stores.store import content_sha256
from transforms.verifying.findings import Finding, Problem, Remedy, unreadable
from transforms.verifying.verification import Verification

_ABSENT = "it should be there, and is not"
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

    def of_all(
        self, numbers: Sequence[int], unchanged: Collection[int], *, with_store: bool
    ) -> Iterator[Finding]:
        """Compute what follows from these shards together, and compare it with what is there.

        They are sound; that `unchanged` ones follow was compared before. Where something is wrong,
        what is written after it is not compared, as it may follow from that. `with_store` includes
        the list of all chains, and their page.
        """
        problem = self._revisions_problem()
        if problem is not None:
            yield problem
            return
        damaged = Wave.SIGNATURES
        for document in chain_documents(self.archive, numbers, unchanged):
            if document.wave > damaged or (document.key in (CHAINS, HOME) and not with_store):
                continue
            for finding in self._document(document):
                damaged = document.wave
                yield finding
                if document.key == CHAINS:
                    return

    def _document(self, document: ArchiveDocument) -> Iterator[Finding]:
        archive, place = self.archive, self.archive.store.describe(document.key)
        problem = Problem.DAMAGED
        try:
            stored = read_small(archive.store, document.key)
            if stored is not None:
                self.verification.took_document()
                if document.key == archive.key(INDEX):
                    archive.index()
                elif document.key == CHAINS:
                    chains(archive.store)
            if stored == document.content(stored):
                return
            what = "it does not follow from what is published"
            if stored is None:
                problem, what = Problem.MISSING, _ABSENT
        except IntegrityError as error:
            what = str(error)
        except OSError as error:
            problem, what = Problem.UNREADABLE, unreadable(error, place)
        yield Finding(problem, place, what, self.remedy)

    def _revisions_problem(self) -> Finding | None:
        """What is wrong with the list of replaced files; None, if nothing."""
        archive, place = self.archive, self.archive.place(REVISIONS)
        stored = archive.read(REVISIONS)
        if stored is None:
            is_named = REVISIONS in parse_sums(archive.read(SUMS) or b"")
            return Finding(Problem.MISSING, place, _ABSENT, _PUT_BACK) if is_named else None
        self.verification.took_document()
        try:
            parse_revisions(stored, archive)
        except IntegrityError as error:
            return Finding(Problem.DAMAGED, place, str(error), _PUT_BACK)
        return None


def document_keys(archive: Archive, numbers: Sequence[int]) -> Iterator[str]:
    """The keys of all documents, besides the shards."""
    other = (REVISIONS, PUBLIC_SQL, PUBLIC_DATABASE)
    yield from (archive.key(name) for name in other)
    yield from (archive.key(f"{name}{ENDING}") for name in SIGNATURES)
    yield from (document.key for document in documents(archive, numbers))


def signature_findings(archive: Archive, public_key: PublicKey) -> Iterator[Finding]:
    """Yield which documents of a chain are not signed by the key."""
    for name in SIGNATURES:
        place = archive.place(f"{name}{ENDING}")
        data, signature = archive.read(name), archive.read(f"{name}{ENDING}")
        if data is None:
            continue  # that it is gone is found where it is read
        if signature is None:
            what = f"{name} is not signed, or its signature is gone"
            yield Finding(Problem.MISSING, place, what, _SIGN)
            continue
        try:
            check_signature(data, signature, public_key, archive.place(name))
        except IntegrityError as error:
            yield Finding(Problem.DAMAGED, place, str(error), _SIGN)


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
        yield Finding(Problem.MISSING, place, _ABSENT, again)
    elif content_sha256(database) != sha256:
        what = f"it does not hash to the SHA-256 that {PUBLIC_SQL} has of it"
        yield Finding(Problem.DAMAGED, place, what, again)
