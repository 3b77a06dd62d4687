"""Local ZIPs of one part, staged or rendered for an export, held against their hash and receipt.

Nothing is lost with those that were rendered: they may be deleted and are rendered again.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from exporters.exports.copies import Copy, DamagedCopyError, FindEqual, damage_of
from exporters.zip_names import NameStyle
from exporters.zips.parts import PartRef, read_parts
from exporters.zips.reader import read_csv
from exporters.zips.sources import LocalSource
from exporters.zips.staging import PartStage
from transforms.files import file_version
from transforms.memory import RENDERING_LIMIT
from transforms.scratch import scratch_folder
from transforms.stores.store import content_sha256
from transforms.verifying.proofs import Proof, Proofs
from transforms.warehouse.load.rendering import rendered_table
from transforms.warehouse.manifests.receipts import Receipt

_REMEDY = "delete it: it is rendered from the warehouse again"


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
    copy = Copy(source.name, source.size, proof.digest, receipt.blocks, find_equal)
    copy.take(replace(source, version=proof.digest))
    return replace(part, source=copy)


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


RENDERED_BYTES = 20 * 2**30
"""How many bytes of rendered parts are kept by default."""


@dataclass(frozen=True, slots=True)
class RenderedParts:
    """The folder `rendered` of a machine's cache. `most_bytes` bounds it between two exports.

    `memory_limit` bounds the DuckDB that renders one.
    """

    cache: Path
    style: NameStyle = NameStyle.SPEC
    most_bytes: int = RENDERED_BYTES
    memory_limit: str = RENDERING_LIMIT

    @property
    def folder(self) -> Path:
        """Where they lie: below the hash of their CSV, which says what is in it."""
        return self.cache / "rendered"

    def stage(self, data: Path | None, receipt: Receipt, *, again: bool = False) -> PartStage:
        """The folder with the part of one table of one segment, rendered now unless it is there.

        `data` is the data file with its rows, if it has any. Raises `IntegrityError` where that is
        damaged: what it renders is held against the receipt.
        """
        stage = PartStage(self.folder / receipt.sha256, self.style)
        path = stage.path(receipt.segment.chain_id, receipt.table, receipt.blocks)
        if again or not path.exists():
            render_part(stage, data, receipt, self.cache / "scratch", self.memory_limit)
        return stage

    def joined(self, name: str) -> Path:
        """Where a ZIP that is spliced again from its parts belongs."""
        return self.folder / "joined" / name

    def make_room(self) -> None:
        """Remove the oldest beyond the bound, and what killed processes left."""
        files = sorted(_files(self.folder))
        total = sum(size for _, size, _ in files)
        for _, size, path in files:
            if total <= self.most_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size


def render_part(
    stage: PartStage,
    data: Path | None,
    receipt: Receipt,
    scratch: Path,
    memory_limit: str,
    *,
    null: str = "",
) -> None:
    """Keep one table of one segment in `stage`, rendered from its rows; see `rendered_table`."""
    with (
        scratch_folder(scratch) as folder,
        rendered_table(data, folder, receipt, null=null, memory_limit=memory_limit) as text,
    ):
        stage.write(receipt.segment, receipt.schema, text.header, text.body, receipt.rows, folder)


def _files(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """Every file with its time and size, unless another process removes it just now."""
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                yield status.st_mtime, status.st_size, path
