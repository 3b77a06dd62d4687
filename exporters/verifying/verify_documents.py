"""The documents of an archive: each is computed again, and signatures are held against a key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from exporters.archive.archive import CHAINS, Archive, read_small
from exporters.archive.documents import (
    ArchiveDocument,
    Wave,
    chain_documents,
    shard_documents,
)
from exporters.archive.hash_lists import ENDING, SIGNATURES, SUMS, parse_sums
from exporters.archive.public_sql import PUBLIC_DATABASE, PUBLIC_SQL, unsealed_sql
from exporters.archive.revisions import REVISIONS, parse_revisions
from exporters.archive.shards import Shard
from exporters.signing_keys import PublicKey, check_signature
from transforms.errors import IntegrityError
from transforms.stores.store import content_sha256
from transforms.verifying.findings import PUBLISH, Finding, Problem, Remedy, present, read_findings

_PUT_BACK = Remedy((), "put it back from a mirror or a backup: nothing else says this")
_PUBLISH_SQL = Remedy(PUBLISH.commands, "with STRATA_PUBLIC_URL set")
_SIGN = Remedy(PUBLISH.commands, "with STRATA_SIGNING_KEY set to the right key")


def shard_findings(archive: Archive, shard: Shard) -> Iterator[Finding]:
    """Compute what follows from a sound shard alone, and compare it with what is there."""
    for document in shard_documents(archive, shard.number, lambda _: shard):
        yield from _document_findings(archive, document)


def chain_findings(archive: Archive, numbers: Sequence[int]) -> Iterator[Finding]:
    """Compute what follows from these shards together, and compare it with what is there.

    They are sound. Where something is wrong, what is written after it is not compared, as it may
    follow from that.
    """
    read = partial(_revisions_problem, archive)
    findings = read_findings(archive.place(REVISIONS), read, _PUT_BACK)
    yield from findings
    last = Wave.INDEX if findings else Wave.SIGNATURES
    for document in chain_documents(archive, numbers):
        if document.wave > last:
            return
        if findings := _document_findings(archive, document):
            last = document.wave
            yield from findings
            if document.key == CHAINS:
                return


def _document_findings(archive: Archive, document: ArchiveDocument) -> list[Finding]:
    def problem() -> str:
        stored = present(read_small(archive.store, document.key), document.key)
        is_right = stored == document.content(stored)
        return "" if is_right else "it does not follow from what is published"

    return read_findings(archive.store.describe(document.key), problem, PUBLISH)


def _revisions_problem(archive: Archive) -> str:
    stored = archive.read(REVISIONS)
    if stored is not None:
        parse_revisions(stored, archive)
    elif REVISIONS in parse_sums(archive.read(SUMS) or b""):
        raise FileNotFoundError(REVISIONS)
    return ""


def signature_findings(archive: Archive, public_key: PublicKey) -> Iterator[Finding]:
    """Yield which documents of a chain are not signed by the key."""
    for name in SIGNATURES:
        read = partial(_signature_problem, archive, name, public_key)
        yield from read_findings(archive.place(f"{name}{ENDING}"), read, _SIGN)


def _signature_problem(archive: Archive, name: str, public_key: PublicKey) -> str:
    data, signature = archive.read(name), archive.read(f"{name}{ENDING}")
    if data is not None:  # that it is gone is found where it is read
        check_signature(data, present(signature, name), public_key, archive.place(name))
    return ""


def public_findings(archive: Archive) -> Iterator[Finding]:
    """Yield what is wrong with the SQL of a chain and its database; nothing where it has none."""
    data = archive.read(PUBLIC_SQL)
    if data is None:
        return
    place = archive.place(PUBLIC_SQL)
    try:
        _, sha256 = unsealed_sql(data, place)
    except IntegrityError as error:  # nothing else says what the database should be
        yield Finding(Problem.DAMAGED, place, str(error), _PUBLISH_SQL)
        return

    def database_problem() -> str:
        database = present(archive.read(PUBLIC_DATABASE), PUBLIC_DATABASE)
        is_right = content_sha256(database) == sha256
        return "" if is_right else f"it does not hash to the SHA-256 that {PUBLIC_SQL} has of it"

    yield from read_findings(archive.place(PUBLIC_DATABASE), database_problem, _PUBLISH_SQL)
