"""Local ZIPs of one part, staged or rendered for an export, held against their hash and receipt."""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from exporters.exports.copies import DamagedCopyError
from exporters.exports.proven_source import ProvenSource, digests
from exporters.zip_names import csv_name
from exporters.zips.container import Member
from exporters.zips.parts import PartRef, read_parts
from exporters.zips.reader import read_csv
from exporters.zips.sources import LocalSource
from exporters.zips.staging import PartStage
from transforms.errors import IntegrityError
from transforms.files import file_version
from transforms.scratch import scratch_folder
from transforms.tables.dialect import header_line
from transforms.verifying.proofs import Proof, Proofs
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.load.rendering import rendered_body
from transforms.warehouse.manifests.receipts import Receipt

_SHA256_DIGITS = 64
_REMEDY = "delete it: it is rendered from the warehouse again"


def staged_part(stage: PartStage, receipt: Receipt, proofs: Proofs) -> PartRef:
    """The part of one table of one segment in a local folder of parts.

    It is proven to be as it was written, and to hold the receipt's text. Raises `FileNotFoundError`
    where it is absent, `DamagedCopyError` where it is something else.
    """
    identity = (receipt.segment.chain_id, receipt.table, receipt.blocks)
    path = stage.path(*identity)
    status = path.stat()
    state = file_version(status)
    source = LocalSource(path, status.st_size, "", state)
    try:
        (part,) = read_parts(source)
        proof = proofs.find(str(path), state, receipt.sha256)
        if proof is None:
            proof = _proof(stage, source, part.member, receipt)
            proofs.keep(proof)
    except (IntegrityError, ValueError) as error:
        raise DamagedCopyError(source.name, f"is damaged ({error}): {_REMEDY}") from error
    versioned = replace(source, version=proof.digest[-_SHA256_DIGITS:])
    return replace(part, source=ProvenSource(versioned, proof, proofs))


def _proof(stage: PartStage, source: LocalSource, member: Member, receipt: Receipt) -> Proof:
    """The proof of a part that hashes to what was recorded, and holds the receipt's text."""
    chain_id, table, blocks = receipt.segment.chain_id, receipt.table, receipt.blocks
    recorded, (sha256, crcs, _) = stage.sha256(chain_id, table, blocks), digests(source)
    if sha256 != recorded:
        raise IntegrityError(f"it hashes to {sha256}, not to {recorded} as when it was written")
    digest = hashlib.sha256()
    for block in read_csv(source, member):
        digest.update(block)
    name = csv_name(chain_id, table, receipt.segment.version, blocks, stage.style)
    expected = (name, receipt.rows, receipt.sha256)
    if (member.name, member.rows, digest.hexdigest()) != expected:
        raise IntegrityError(f"it does not hold {table} of segment {blocks}")
    return Proof(source.name, source.state, receipt.sha256, crcs + sha256)


def render_part(
    stage: PartStage,
    catalog: Catalog,
    receipt: Receipt,
    scratch: Path,
    memory_limit: str,
    *,
    null: str = "",
) -> None:
    """Keep one table of one segment in `stage`, rendered from its rows; see `rendered_body`."""
    data = catalog.data_path(receipt.blocks, receipt.table) if receipt.rows else None
    with (
        scratch_folder(scratch) as folder,
        closing(rendered_body(data, folder, receipt, null, memory_limit)) as body,
    ):
        stage.write(receipt, body, folder, header_line(receipt.schema.names, null))
