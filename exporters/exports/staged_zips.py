"""Local ZIPs of one part, staged or rendered, held against the part's hash and its receipt."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from exporters.exports.copies import Copy, DamagedCopyError, FindEqual, damage_of
from exporters.zips.inflate import read_csv
from exporters.zips.parts import PartRef, read_parts
from exporters.zips.sources import LocalSource
from exporters.zips.staging import PartStage
from transforms.block_range import BlockRange
from transforms.files import file_version
from transforms.stores.store import content_sha256
from transforms.verifying.proofs import Proof, Proofs
from transforms.warehouse.manifests.receipts import Receipt

_REMEDY = "delete it: it is rendered from the warehouse again"


class StagedCopy(Copy):
    """A local ZIP that was proven when it was found."""

    __slots__ = ("blocks", "name", "size", "version")

    name: str
    size: int
    version: str
    blocks: BlockRange

    def __init__(self, proven: LocalSource, blocks: BlockRange, find_equal: FindEqual) -> None:
        super().__init__(find_equal)
        self.take(proven)
        self.name, self.size, self.version = proven.name, proven.size, proven.version
        self.blocks = blocks

    def prove(self) -> None:
        """Nothing is left to prove."""


def staged_part(
    stage: PartStage, receipt: Receipt, proofs: Proofs, find_equal: FindEqual
) -> PartRef:
    """The part of one table of one segment in a local folder of parts.

    It is proven to be as it was written, and to hold the receipt's text. Raises `FileNotFoundError`
    where it is absent, `DamagedCopyError` where it is something else.
    """
    identity = (receipt.segment.chain_id, receipt.table, receipt.blocks)
    path = stage.path(*identity)
    status = path.stat()
    state = file_version(status)
    source = LocalSource(path, status.st_size, "", state)
    with damage_of(source.name, receipt.blocks, _REMEDY):
        (part,) = read_parts(source)
    proof = proofs.find(str(path), state, receipt.sha256)
    if proof is None:
        proof = Proof(str(path), state, receipt.sha256, content_sha256(path))
        if proof.digest != (expected := stage.sha256(*identity)):
            raise DamagedCopyError(
                source.name,
                receipt.blocks,
                f"hashes to {proof.digest}, not to {expected} as when it was written: {_REMEDY}",
            )
        _check_text(part, receipt)
        proofs.keep(proof)
    proven = replace(source, version=proof.digest)
    return replace(part, source=StagedCopy(proven, receipt.blocks, find_equal))


def _check_text(part: PartRef, receipt: Receipt) -> None:
    digest = hashlib.sha256()
    place = part.source.name
    with damage_of(place, receipt.blocks, _REMEDY):
        for block in read_csv(part.source, part.member):
            digest.update(block)
    if (digest.hexdigest(), part.blocks) != (receipt.sha256, receipt.blocks):
        raise DamagedCopyError(
            place,
            receipt.blocks,
            f"does not hold {receipt.table} of segment {receipt.blocks}: {_REMEDY}",
        )
