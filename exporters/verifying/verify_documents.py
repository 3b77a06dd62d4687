"""The documents of an archive: each is computed again, and signatures are held against a key."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from exporters.archive.archive import CHAINS, Archive, chains, read_small
from exporters.archive.documents import ArchiveDocument, chain_documents, documents, shard_documents
from exporters.archive.hash_lists import ENDING, SIGNATURES, SUMS, parse_sums
from exporters.archive.lake_place import LAKE
from exporters.archive.public_sql import PUBLIC_DATABASE, PUBLIC_SQL, unsealed_sql
from exporters.archive.revisions import REVISIONS, parse_revisions
from exporters.archive.sound_documents import HOME
from exporters.signing_keys import PublicKey, check_signature
from transforms.errors import IntegrityError
from transforms.lake.public_views import file_lists
from transforms.stores.read_only import ReadOnlyStore
from transforms.stores.store import Store, content_sha256
from transforms.verifying.findings import Finding, Problem, Remedy, unreadable
from transforms.verifying.verification import Counts, Kind

_KINDS = {".html": Kind.PAGES, ".sha256": Kind.HASH_FILES, "": Kind.HASH_FILES}
_PUT_BACK = Remedy((), "put it back from a mirror or a backup: nothing else says this")


class RightStore(ReadOnlyStore):
    """A store for reading; documents that were computed stand in the place of those stored.

    So a damaged document does not keep what follows from it from being held against what is right.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._right: dict[str, bytes] = {}

    def correct(self, key: str, content: bytes) -> None:
        """Answer with this from now on."""
        self._right[key] = content

    def read(
        self, key: str, start: int = 0, length: int | None = None, *, version: str | None = None
    ) -> bytes:
        """The right bytes where they are known, and those stored otherwise."""
        if key not in self._right:
            return self.store.read(key, start, length, version=version)
        return self._right[key][start : None if length is None else start + length]


@dataclass(frozen=True, slots=True)
class DocumentsCheck:
    """The check of one chain's documents; what was read is counted."""

    archive: Archive
    counts: Counts
    remedy: Remedy

    def of_shard(self, number: int) -> Iterator[Finding]:
        """Compute what follows from a sound shard alone, and compare it with what is there."""
        for document in shard_documents(self.archive, number):
            yield from self._document(document)

    def of_all(
        self, numbers: Sequence[int], unchanged: Collection[int], *, with_store: bool
    ) -> Iterator[Finding]:
        """Compute what follows from these shards together, and compare it with what is there.

        They are sound; that `unchanged` ones follow was compared before. `with_store` includes the
        list of all chains, and their page.
        """
        right = RightStore(self.archive.store)
        yield from self._revisions()
        chain = Archive(right, self.archive.chain_id)
        for document in chain_documents(chain, numbers, unchanged):
            if document.key not in (CHAINS, HOME) or with_store:
                yield from self._document(document, right)

    def _document(
        self, document: ArchiveDocument, right: RightStore | None = None
    ) -> Iterator[Finding]:
        archive, place = self.archive, self.archive.store.describe(document.key)
        kind = _KINDS.get(PurePosixPath(document.key).suffix, Kind.DOCUMENTS)
        self.counts.expect(kind)
        stored, problem, what = None, Problem.BAD_INDEX, "it should be there, and is not"
        try:
            stored = read_small(archive.store, document.key)
        except OSError as error:
            problem, what = Problem.UNREADABLE, unreadable(error, place)
        except IntegrityError as error:
            what = str(error)
        if stored is None:
            yield Finding(problem, place, what, self.remedy)
        self.counts.read(kind, 0 if stored is None else 1)
        damage = ""
        if document.key in (archive.key("index.json"), CHAINS):  # others are made from these
            try:
                archive.index() if document.key != CHAINS else chains(archive.store)
            except (IntegrityError, OSError) as error:
                damage = str(error)
        expected = document.content(None if damage else stored)
        if right is not None:
            right.correct(document.key, expected)
        if stored is not None and stored != expected:
            what = damage or "it does not follow from what is published"
            yield Finding(Problem.BAD_INDEX, place, what, self.remedy)

    def _revisions(self) -> Iterator[Finding]:
        archive, place = self.archive, self.archive.place(REVISIONS)
        stored = archive.read(REVISIONS)
        if stored is None and REVISIONS not in parse_sums(archive.read(SUMS) or b""):
            return
        self.counts.expect(Kind.DOCUMENTS)
        self.counts.read(Kind.DOCUMENTS, 0 if stored is None else 1)
        if stored is None:
            what = "it should be there, and is not"
            yield Finding(Problem.BAD_INDEX, place, what, _PUT_BACK)
        try:
            parse_revisions(stored, archive)
        except IntegrityError as error:
            yield Finding(Problem.BAD_INDEX, place, str(error), _PUT_BACK)


def document_keys(archive: Archive, numbers: Sequence[int]) -> Iterator[str]:
    """The keys of all documents, besides the shards."""
    other = (REVISIONS, PUBLIC_SQL, PUBLIC_DATABASE)
    yield from (archive.key(name) for name in other)
    yield from (archive.key(f"{name}{ENDING}") for name in SIGNATURES)
    yield from (document.key for document in documents(archive, numbers))


_SIGN = Remedy(("strata publish",), "with STRATA_SIGNING_KEY set to the right key")


def signature_findings(
    archive: Archive, public_key: PublicKey, counts: Counts
) -> Iterator[Finding]:
    """Yield which documents of a chain are not signed by the key."""
    for name in SIGNATURES:
        place = archive.place(f"{name}{ENDING}")
        counts.expect(Kind.DOCUMENTS)
        data, signature = archive.read(name), archive.read(f"{name}{ENDING}")
        counts.read(Kind.DOCUMENTS, 0 if signature is None else 1)
        if data is None:
            continue  # that it is gone is found where it is read
        if signature is None:
            what = f"{name} is not signed, or its signature is gone"
            yield Finding(Problem.BAD_SIGNATURE, place, what, _SIGN)
            continue
        try:
            check_signature(data, signature, public_key, archive.place(name))
        except IntegrityError as error:
            yield Finding(Problem.BAD_SIGNATURE, place, str(error), _SIGN)


def public_findings(archive: Archive, counts: Counts, remedy: Remedy) -> Iterator[Finding]:
    """Yield what is wrong with the two documents of a chain; nothing where it has none."""
    data, place = archive.read(PUBLIC_SQL), archive.place(PUBLIC_SQL)
    if data is None:
        return
    with_address = Remedy(remedy.commands, remedy.note or "with STRATA_PUBLIC_URL set")
    counts.expect(Kind.DOCUMENTS, 2)
    counts.read(Kind.DOCUMENTS)
    try:
        statements, sha256 = unsealed_sql(data, place)
    except IntegrityError as error:
        counts.read(Kind.DOCUMENTS)  # nothing else says what the database should be
        yield Finding(Problem.BAD_INDEX, place, str(error), with_address)
        return
    start = archive.key(f"{LAKE}/")
    there = {info.key for info in archive.store.list(start)}
    for files in file_lists(statements) if there else ():  # a mirror may have no lake
        for name in files.files:
            if f"{start}{files.table}/{name}" not in there:
                what = f"it names {LAKE}/{files.table}/{name}, which is not there"
                yield Finding(Problem.BAD_INDEX, place, what, with_address)
    database = archive.read(PUBLIC_DATABASE)
    counts.read(Kind.DOCUMENTS, 0 if database is None else 1)
    if database is None or content_sha256(database) != sha256:
        is_there = f"it does not hash to the SHA-256 that {PUBLIC_SQL} has of it"
        what = "it should be there, and is not" if database is None else is_there
        yield Finding(Problem.BAD_INDEX, archive.place(PUBLIC_DATABASE), what, with_address)
