"""Parts that were rendered from their data files for an export, as they lay nowhere else.

Nothing is lost with them: they may be deleted at any time and are rendered again.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from exporters.zip_names import NameStyle
from exporters.zips.staging import PartStage
from transforms.memory import RENDERING_LIMIT
from transforms.scratch import scratch_folder
from transforms.warehouse.load.rendering import rendered_table
from transforms.warehouse.manifests.receipts import Receipt

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
