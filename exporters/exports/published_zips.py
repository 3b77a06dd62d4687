"""Published ZIPs as copies of parts, held against what the archive's index says of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.exports.copies import Copy, DamagedCopyError, FindEqual
from exporters.zips.container import Member
from exporters.zips.parts import PartRef
from exporters.zips.reader import read_members
from exporters.zips.sources import ByteSource, CheckedSource, MemorySource, block_crcs
from transforms.stores.store import CHUNK_BYTES
from transforms.verifying.proofs import Proof, Proofs

_CRC_DIGITS = 8


def published_copy(archive: Archive, entry: Entry, proofs: Proofs, find_equal: FindEqual) -> Copy:
    """A published ZIP; nothing of it is read yet."""
    prove = partial(_prove_published, archive, entry, proofs)
    name = archive.place(entry.path)
    return Copy(name, entry.bytes, entry.sha256, entry.blocks, prove, find_equal)


def published_parts(entry: Entry, copy: Copy) -> tuple[PartRef, ...]:
    """The parts of a published ZIP, by what the index says of them."""
    return tuple(
        PartRef(copy, member, csv.version, csv.blocks)
        for member, csv in zip(members_of(entry), entry.members, strict=True)
    )


def members_of(entry: Entry) -> Iterator[Member]:
    """The members of an entry, as the index has their runs."""
    offset = 0
    for csv in entry.members:
        member = Member(csv.name, offset, *csv.runs, csv.rows)
        yield member
        if len(entry.members) > 1:  # nearly no ZIP has more, and the end takes a header to find
            offset = member.end


def _prove_published(archive: Archive, entry: Entry, proofs: Proofs) -> ByteSource:
    place = archive.place(entry.path)
    info = archive.store.head(archive.key(entry.path))
    if info is None:
        raise DamagedCopyError(
            place, entry.blocks, f"is not there, but the index names it: {_remedy(entry)}"
        )
    if info.size != entry.bytes:
        raise DamagedCopyError(
            place,
            entry.blocks,
            f"has {info.size} bytes, the index says {entry.bytes}: {_remedy(entry)}",
        )
    source = archive.source(entry, info.version)
    proof = proofs.find(place, info.version, entry.sha256)
    if proof is None:
        proof = Proof(place, info.version, entry.sha256, _checked_crcs(source, entry))
        proofs.keep(proof)
    if archive.store.path(archive.key(entry.path)) is not None:
        return source
    crcs = (proof.digest[at : at + _CRC_DIGITS] for at in range(0, len(proof.digest), _CRC_DIGITS))
    return CheckedSource(source, tuple(int(crc, 16) for crc in crcs))


def _checked_crcs(source: ByteSource, entry: Entry) -> str:
    """The CRC-32 of each block, in hex, of a ZIP that is what the index says."""
    digest = hashlib.sha256()
    data, crcs = b"", ""
    for offset in range(0, source.size, CHUNK_BYTES):
        data = source.read(offset, CHUNK_BYTES)
        digest.update(data)
        crcs += "".join(f"{crc:0{_CRC_DIGITS}x}" for crc in block_crcs(data))
    if digest.hexdigest() != entry.sha256:
        raise DamagedCopyError(
            source.name,
            entry.blocks,
            f"hashes to {digest.hexdigest()}, the index says {entry.sha256}: {_remedy(entry)}",
        )
    whole = MemorySource(source.name, data) if source.size <= CHUNK_BYTES else source
    if tuple(members_of(entry)) != read_members(whole):
        raise DamagedCopyError(
            source.name,
            entry.blocks,
            f"has other runs than the index says: {_remedy(entry)}",
        )
    return crcs


def _remedy(entry: Entry) -> str:
    return (
        f"put it there again with `strata publish --replace REASON --table {entry.table} "
        f"--blocks {entry.blocks}`"
    )
