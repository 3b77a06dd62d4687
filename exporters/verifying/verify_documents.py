"""The documents of an archive: each is computed again, and signatures are held against a key."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import PurePosixPath

from exporters.archive.archive import CHAINS, Archive, chains, read_small
from exporters.archive.documents import ArchiveDocument, chain_documents, documents, shard_documents
from exporters.archive.hash_lists import ENDING, SIGNATURES
from exporters.archive.public_sql import PUBLIC_DATABASE, PUBLIC_SQL
from exporters.archive.revisions import REVISIONS, REVISIONS_COPY, right_revisions
from exporters.archive.sound_documents import HOME
from exporters.signing_keys import PublicKey, check_signature
from transforms.errors import IntegrityError
from transforms.stores.read_only import ReadOnlyStore
from transforms.stores.store import Store
from transforms.verifying.findings import Finding, Problem, Remedy, unreadable
from transforms.verifying.verification import Counts, Kind

_KINDS = {
    "json": Kind.DOCUMENTS,
    "xml": Kind.DOCUMENTS,
    "txt": Kind.DOCUMENTS,
    "html": Kind.PAGES,
    "sha256": Kind.HASH_FILES,
    "": Kind.HASH_FILES,
}
_NEITHER = Remedy(
    (), f"put {REVISIONS} or {REVISIONS_COPY} back from a backup: nothing else says this"
)


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


def shard_findings(
    archive: Archive, number: int, counts: Counts, remedy: Remedy
) -> Iterator[Finding]:
    """Compute what follows from a sound shard alone, and compare it with what is there."""
    for document in shard_documents(archive, number):
        yield from _document(archive, None, document, counts, remedy)


def document_findings(
    archive: Archive,
    numbers: Sequence[int],
    unchanged: Collection[int],
    counts: Counts,
    remedy: Remedy,
    *,
    with_store: bool,
) -> Iterator[Finding]:
    """Compute what follows from these shards together, and compare it with what is there.

    They are sound; that `unchanged` ones follow was compared before. `with_store` includes the list
    of all chains, and their page.
    """
    right = RightStore(archive.store)
    yield from _revisions(archive, counts, remedy)
    for document in chain_documents(Archive(right, archive.chain_id), numbers, unchanged):
        if document.key not in (CHAINS, HOME) or with_store:
            yield from _document(archive, right, document, counts, remedy)


def document_keys(archive: Archive, numbers: Sequence[int]) -> Iterator[str]:
    """The keys of all documents, besides the shards."""
    other = (REVISIONS, REVISIONS_COPY, PUBLIC_SQL, PUBLIC_DATABASE)
    yield from (archive.key(name) for name in other)
    yield from (archive.key(f"{name}{ENDING}") for name in SIGNATURES)
    yield from (document.key for document in documents(archive, numbers))


def _document(
    archive: Archive,
    right: RightStore | None,
    document: ArchiveDocument,
    counts: Counts,
    remedy: Remedy,
) -> Iterator[Finding]:
    place = archive.store.describe(document.key)
    kind = _KINDS[PurePosixPath(document.key).suffix[1:]]
    counts.expect(kind)
    try:
        stored = read_small(archive.store, document.key)
    except OSError as error:
        yield Finding(Problem.UNREADABLE, place, unreadable(error, place), remedy)
        stored = None
    except IntegrityError as error:
        yield Finding(Problem.BAD_INDEX, place, str(error), remedy)
        stored = None
    else:
        if stored is None:
            what = "it should be there, and is not"
            yield Finding(Problem.BAD_INDEX, place, what, remedy)
    counts.read(kind, 0 if stored is None else 1)
    damage = _damage(archive, document.key)
    expected = document.content(None if damage else stored)
    if right is not None:
        right.correct(document.key, expected)
    if stored is not None and stored != expected:
        what = damage or "it does not follow from what is published"
        yield Finding(Problem.BAD_INDEX, place, what, remedy)


def _damage(archive: Archive, key: str) -> str:
    """Why a document that others are made from cannot be read, if it cannot."""
    read: Callable[[], object]
    if key == archive.key("index.json"):
        read = archive.index
    elif key == CHAINS:
        read = partial(chains, archive.store)
    else:
        return ""
    try:
        read()
    except (IntegrityError, OSError) as error:
        return str(error)
    return ""


def _revisions(archive: Archive, counts: Counts, remedy: Remedy) -> Iterator[Finding]:
    place = archive.place(REVISIONS)
    try:
        expected = right_revisions(archive)
    except IntegrityError as error:
        counts.expect(Kind.DOCUMENTS, 2)
        yield Finding(Problem.BAD_INDEX, place, str(error), _NEITHER)
        return
    if expected is None:
        return
    for name in (REVISIONS, REVISIONS_COPY):
        counts.expect(Kind.DOCUMENTS)
        stored = archive.read(name)
        counts.read(Kind.DOCUMENTS, 0 if stored is None else 1)
        if stored is None:
            what = "it should be there, and is not"
            yield Finding(Problem.BAD_INDEX, archive.place(name), what, remedy)
        elif stored != expected:
            what = "it is damaged, or lacks what its other copy says"
            yield Finding(Problem.BAD_INDEX, archive.place(name), what, remedy)


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
