"""Copies of parts: the ZIPs in which a part lies, each proven before a byte of it is served.

A part lies in the published ZIP of its segment, in those of wider windows, or in the folder of
parts that wait to be published; and it can be rendered from its volume. Whichever copy is taken,
the bytes are the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.exports.proofs import Proof, Proofs
from exporters.stores.store import CHUNK_BYTES, content_sha256
from exporters.zips.container import Member
from exporters.zips.inflate import read_csv
from exporters.zips.parts import PartRef, read_parts
from exporters.zips.reader import read_members
from exporters.zips.sources import ByteSource, LocalSource, MemorySource
from exporters.zips.staging import PartStage
from transforms.blocks import BlockRange
from transforms.errors import BusyError, IntegrityError
from transforms.files import file_version
from transforms.warehouse.receipts import Receipt

_Result = TypeVar("_Result")
_REMEDY_WAITING = "delete it: it is rendered from the warehouse again"


class DamagedCopyError(IntegrityError):
    """A copy over `blocks` is not what is recorded of it, or not there; `place` is its address."""

    def __init__(self, place: str, blocks: BlockRange, what: str) -> None:
        super().__init__(f"{place} {what}")
        self.place = place
        self.blocks = blocks


class Copy:
    """One ZIP with parts over `blocks`, as bytes that are proven before the first of them is read.

    Where it turns out to be damaged, or went meanwhile, the same bytes are taken from elsewhere.
    """

    def __init__(
        self,
        name: str,
        size: int,
        sha256: str,
        blocks: BlockRange,
        prove: Callable[[], ByteSource],
        find_equal: FindEqual,
    ) -> None:
        """`prove` gives the bytes in the very state in which they were proven, or raises."""
        self.name = name
        self.size = size
        self.version = sha256
        self.blocks = blocks
        self._prove = prove
        self._find_equal = find_equal
        self._source: ByteSource | None = None

    def prove(self) -> None:
        """Prove it now, unless that was done. Raises `DamagedCopyError`."""
        self._source = self._source or self._prove()

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`.

        Raises `IntegrityError` where neither this copy nor an equal one is sound.
        """
        return self._proven(lambda source: source.read(offset, length))

    def descriptor(self) -> int | None:
        """A descriptor of the proven file, as `ByteSource` has it."""
        return self._proven(lambda source: source.descriptor())

    def _proven(self, work: Callable[[ByteSource], _Result]) -> _Result:
        try:
            self.prove()
            assert self._source is not None
            return work(self._source)
        except (BusyError, FileNotFoundError, IntegrityError) as error:
            self._source = self._find_equal(self, error)
            return work(self._source)


FindEqual = Callable[[Copy, Exception], ByteSource]
"""Gives the bytes of a copy, which cannot be read for this reason, from elsewhere."""


def no_other_copy(_copy: Copy, reason: Exception) -> ByteSource:
    """For those who want this very copy: that it cannot be read is the error."""
    raise reason


def published_copy(archive: Archive, entry: Entry, proofs: Proofs, find_equal: FindEqual) -> Copy:
    """A published ZIP; nothing of it is read yet."""
    prove = partial(_prove_published, archive, entry, proofs)
    name = archive.place(entry.path)
    return Copy(name, entry.bytes, entry.sha256, entry.blocks, prove, find_equal)


def published_parts(archive: Archive, entry: Entry, copy: Copy) -> tuple[PartRef, ...]:
    """The parts of a published ZIP, by what the index says of them, else by its directory.

    Raises `DamagedCopyError` where the directory must be read and is damaged or absent.
    """
    members = tuple(_members_of(entry))
    if not members:
        with _damage_of(copy.name, entry.blocks, _remedy_published(entry)):
            return tuple(replace(p, source=copy) for p in read_parts(archive.source(entry)))
    return tuple(
        PartRef(copy, member, csv.version, csv.blocks)
        for member, csv in zip(members, entry.members, strict=True)
    )


def local_part(
    stage: PartStage, receipt: Receipt, proofs: Proofs, find_equal: FindEqual
) -> PartRef:
    """The part of one table of one segment in a local folder of parts.

    It is proven to be as it was written, and to hold the receipt's text. Raises `FileNotFoundError`
    where it is absent, `DamagedCopyError` where it is something else.
    """
    named = (receipt.segment.chain_id, receipt.table, receipt.blocks)
    path = stage.path(*named)
    found = path.stat()
    state = file_version(found)
    source = LocalSource(path, found.st_size, "", state)
    with _damage_of(source.name, receipt.blocks, _REMEDY_WAITING):
        (part,) = read_parts(source)
    proof = proofs.find(str(path), state, receipt.sha256)
    if proof is None:
        proof = Proof(str(path), state, receipt.sha256, content_sha256(path))
        if proof.sha256 != (written := stage.sha256(*named)):
            raise DamagedCopyError(
                source.name,
                receipt.blocks,
                f"hashes to {proof.sha256}, not to {written} as when it was written: "
                f"{_REMEDY_WAITING}",
            )
        _check_text(part, receipt)
        proofs.keep([proof])
    proven = replace(source, version=proof.sha256)
    blocks = receipt.blocks
    copy = Copy(str(path), source.size, proof.sha256, blocks, lambda: proven, find_equal)
    return replace(part, source=copy)


@contextmanager
def _damage_of(place: str, blocks: BlockRange, remedy: str) -> Iterator[None]:
    """Name the copy and its remedy where reading its directory fails."""
    try:
        yield
    except FileNotFoundError as error:
        raise DamagedCopyError(place, blocks, f"is not there: {remedy}") from error
    except (IntegrityError, ValueError) as error:
        raise DamagedCopyError(place, blocks, f"is damaged ({error}): {remedy}") from error


def _members_of(entry: Entry) -> Iterator[Member]:
    """The members of an entry whose index has their runs; none where it lacks them."""
    offset = 0
    for csv in entry.members:
        if csv.runs is None:
            return
        member = Member(csv.name, offset, *csv.runs, csv.rows)
        yield member
        if len(entry.members) > 1:
            offset = member.end


def _prove_published(archive: Archive, entry: Entry, proofs: Proofs) -> ByteSource:
    place = archive.place(entry.path)
    held = archive.store.head(archive.key(entry.path))
    if held is None:
        raise DamagedCopyError(
            place, entry.blocks, f"is not there, but the index names it: {_remedy_published(entry)}"
        )
    if held.size != entry.bytes:
        raise DamagedCopyError(
            place,
            entry.blocks,
            f"has {held.size} bytes, the index says {entry.bytes}: {_remedy_published(entry)}",
        )
    source = archive.source(entry, held.version)
    if proofs.find(place, held.version, entry.sha256) is None:
        _check_published(source, entry)
        proofs.keep([Proof(place, held.version, entry.sha256, entry.sha256)])
    return source


def _check_published(source: ByteSource, entry: Entry) -> None:
    digest = hashlib.sha256()
    data = b""
    for offset in range(0, source.size, CHUNK_BYTES):
        data = source.read(offset, CHUNK_BYTES)
        digest.update(data)
    if digest.hexdigest() != entry.sha256:
        raise DamagedCopyError(
            source.name,
            entry.blocks,
            f"hashes to {digest.hexdigest()}, the index says {entry.sha256}: "
            f"{_remedy_published(entry)}",
        )
    whole = MemorySource(source.name, data) if source.size <= CHUNK_BYTES else source
    members = tuple(_members_of(entry))
    if members and members != read_members(whole):
        raise DamagedCopyError(
            source.name,
            entry.blocks,
            f"has other runs than the index says: {_remedy_published(entry)}",
        )


def _check_text(part: PartRef, receipt: Receipt) -> None:
    digest = hashlib.sha256()
    place = part.source.name
    with _damage_of(place, receipt.blocks, _REMEDY_WAITING):
        for block in read_csv(part.source, part.member):
            digest.update(block)
    if (digest.hexdigest(), part.blocks) != (receipt.sha256, receipt.blocks):
        raise DamagedCopyError(
            place,
            receipt.blocks,
            f"does not hold {receipt.table} of segment {receipt.blocks}: {_REMEDY_WAITING}",
        )


def _remedy_published(entry: Entry) -> str:
    return (
        f"put it there again with `strata publish --replace REASON --table {entry.table} "
        f"--blocks {entry.blocks}`"
    )
