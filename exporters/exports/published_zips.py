"""Published ZIPs as copies of parts, held against what the archive's index says of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from exporters.archive.archive import Archive
from exporters.archive.csv_columns import CsvColumns, ZipRow
from exporters.archive.entries import Entry
from exporters.exports.copies import DamagedCopyError
from exporters.exports.proven_source import ProvenSource, digests
from exporters.zips.container import Member, directory
from exporters.zips.parts import PartColumns, PartRef
from exporters.zips.sources import ByteSource, read_exactly
from transforms.errors import IntegrityError
from transforms.verifying.proofs import Proof, Proofs


class PublishedCopy:
    """A published ZIP as bytes that are proven before the first of them is read."""

    __slots__ = ("_prover", "_source", "name", "size", "version", "zip")

    def __init__(self, prover: ZipProver, what: Entry | ZipRow) -> None:
        """`what` the index says of it: its length in bytes, its SHA-256."""
        self.name, self.size, self.version = (
            prover.archive.place(what.path),
            what.bytes,
            what.sha256,
        )
        self.zip = what
        self._prover = prover
        self._source: ByteSource | None = None

    @property
    def is_proven(self) -> bool:
        """Whether its bytes are known to be sound."""
        return self._source is not None

    def take(self, source: ByteSource) -> None:
        """Read these bytes: they were proven in this very state."""
        self._source = source

    def prove(self) -> ByteSource:
        """Prove it now, unless that was done. Raises `DamagedCopyError`."""
        if self._source is None:
            for damage in self._prover.prove([self]):
                raise damage
            assert self._source is not None
        return self._source

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`.

        Raises `IntegrityError` where it is damaged, or went, and `BusyError` where it was replaced.
        """
        try:
            return self.prove().read(offset, length)
        except IntegrityError:
            self._prover.suspects.add(self.name)
            raise
        except FileNotFoundError as error:
            raise IntegrityError(f"{self.name} went while it was read: ask again") from error


@dataclass(frozen=True, slots=True)
class ZipProver:
    """Proves copies in an archive; `proofs` are of those that need not be read again.

    `suspects` gets the places of those that are damaged: they are proven before they are laid out.
    """

    archive: Archive
    proofs: Proofs
    suspects: set[str] = field(default_factory=set)

    def prove(self, copies: Iterable[PublishedCopy]) -> list[DamagedCopyError]:
        """Prove copies, unless that was done; returns what is wrong with those that are damaged.

        Their proofs are looked up, and kept, at once: one by one takes longer than the rest.
        """
        damages: list[DamagedCopyError] = []
        present: list[tuple[PublishedCopy, Proof]] = []
        for copy in copies:
            try:
                if not copy.is_proven:
                    present.append((copy, self._state(copy)))
            except DamagedCopyError as damage:
                damages.append(damage)
        proofs = self.proofs.find_each([state for _, state in present])
        fresh: list[Proof] = []
        try:
            for (copy, state), proof in zip(present, proofs, strict=True):
                try:
                    copy.take(self._source(copy, state, proof, fresh))
                except DamagedCopyError as damage:
                    damages.append(damage)
        finally:
            self.proofs.keep(*fresh)
        self.suspects.update(damage.place for damage in damages)
        return damages

    def _state(self, copy: PublishedCopy) -> Proof:
        """What a proof of a ZIP says that is there as it is now."""
        info = self.archive.store.head(self.archive.key(copy.zip.path))
        if info is None:
            raise _damage(copy, "is not there, but the index names it")
        if info.size != copy.size:
            raise _damage(copy, f"has {info.size} bytes, the index says {copy.size}")
        return Proof(copy.name, info.version, copy.version)

    def _source(
        self, copy: PublishedCopy, state: Proof, proof: Proof | None, fresh: list[Proof]
    ) -> ByteSource:
        """The bytes of a ZIP in the state that was proven, or is now."""
        source = self.archive.source(copy.zip, state.state)
        if proof is None:
            digest = _checked_crcs(source, copy)
            proof = Proof(state.place, state.state, state.recorded, digest)
            fresh.append(proof)
        return ProvenSource(source, proof, self.proofs)


def published_copy(archive: Archive, entry: Entry, proofs: Proofs) -> PublishedCopy:
    """The copy that an entry describes."""
    return PublishedCopy(ZipProver(archive, proofs), entry)


def published_part(entry: Entry, copy: PublishedCopy) -> PartRef:
    """The part of a published ZIP, by what the index says of it."""
    return PartRef(copy, entry.member, entry.segment.version, entry.blocks)


def published_columns(csvs: CsvColumns, rows: Sequence[int], prover: ZipProver) -> PartColumns:
    """The parts that published CSVs are, by their rows."""
    columns = (
        csvs.offsets,
        csvs.header_deflated,
        csvs.header_plain,
        csvs.header_crcs,
        csvs.body_deflated,
        csvs.body_plain,
        csvs.body_crcs,
        csvs.rows,
    )
    copies: list[ByteSource] = [PublishedCopy(prover, ZipRow(csvs, row)) for row in rows]
    return PartColumns(copies, *([column[row] for row in rows] for column in columns))


def _checked_crcs(source: ByteSource, copy: PublishedCopy) -> str:
    """The CRC-32 of each block, in hex, of a ZIP that is what the index says."""
    sha256, crcs, tail = digests(source)
    if sha256 != copy.version:
        raise _damage(copy, f"hashes to {sha256}, the index says {copy.version}")
    if not _has_directory(source, copy.zip.member, tail):
        raise _damage(copy, "has other runs than the index says")
    return crcs


def _has_directory(source: ByteSource, member: Member, tail: bytes) -> bool:
    """Whether a ZIP, of which these are the last bytes, has the directory of this member.

    It follows from them to the byte, so there is nothing to parse.
    """
    expected = directory([member])
    start = member.end
    if start + len(expected) != source.size:
        return False
    if len(tail) < len(expected):
        tail = read_exactly(source, start, len(expected))
    return tail.endswith(expected)


def _damage(copy: PublishedCopy, what: str) -> DamagedCopyError:
    remedy = (
        f"put it there again with `strata publish --replace REASON --table {copy.zip.table} "
        f"--blocks {copy.zip.blocks}`"
    )
    return DamagedCopyError(copy.name, f"{what}: {remedy}")
