"""Where the parts of a download come from: published, waiting to be, or rendered now.

Whichever it is, the bytes are the same: so a download equals what a batch would publish.
"""

from __future__ import annotations

import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from api.core.settings import Places
from api.core.workers import Cancellation
from api.queries.checked_parts import CheckedParts
from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.exports.plan import ExportPlan
from exporters.names import NameStyle
from exporters.stores.store import Store
from exporters.zips.parts import PartRef
from exporters.zips.staging import PartStage
from transforms.blocks import BlockRange
from transforms.errors import RangeError
from transforms.scratch import scratch_folder
from transforms.warehouse.catalog import Catalog
from transforms.warehouse.rendering import rendered_table
from transforms.warehouse.shapes import Volume


class PartFinder:
    """Finds parts for export plans in the places of one warehouse and its archive."""

    def __init__(self, places: Places, store: Store, rendered_bytes: int) -> None:
        self._store = store
        self._staged = PartStage(places.warehouse.absolute() / "parts", places.names)
        self._folder = places.rendered
        self._rendered_bytes = rendered_bytes
        self._checked = CheckedParts()
        # DuckDB opens a file but once in a process for each set of options; rendering has its own.
        self._rendering = threading.Lock()

    @property
    def style(self) -> NameStyle:
        """How numbers are written in names."""
        return self._staged.style

    def find(self, plan: ExportPlan, catalog: Catalog, cancellation: Cancellation) -> list[PartRef]:
        """Parts that cover the plan. Renders those that exist nowhere; stops when cancelled.

        Raises `IntegrityError` where a part, or the volume to render it from, is damaged.
        """
        archive = Archive(self._store, plan.chain_id)
        entries = list(_widest(archive, plan))
        published = [entry.blocks for entry in entries]
        parts = [part for entry in entries for part in self._checked.published(archive, entry)]
        for span in plan.spans:
            for blocks in _outside(span.segments, published):
                parts += self._waiting(plan, blocks) or self._rendered(
                    plan, catalog, blocks, cancellation
                )
        return parts

    def _waiting(self, plan: ExportPlan, blocks: BlockRange) -> Sequence[PartRef] | None:
        try:
            return self._checked.local(self._staged.path(plan.chain_id, plan.table, blocks))
        except FileNotFoundError:
            return None

    def _rendered(
        self, plan: ExportPlan, catalog: Catalog, blocks: BlockRange, cancellation: Cancellation
    ) -> Sequence[PartRef]:
        """The part as it was rendered for an earlier download, or is now."""
        volume = catalog.volume_of(blocks)
        if volume is None:
            raise RangeError(f"the warehouse does not hold the segment {blocks}")
        # The volume's name says what is in it: what was rendered from another one is not found.
        folder = self._folder / Path(volume.file).stem
        # Nothing is lost with a rendered part: it can be rendered again.
        stage = PartStage(folder, self._staged.style, durable=False)
        path = stage.path(plan.chain_id, plan.table, blocks)
        with self._rendering:
            cancellation.check()
            if not path.exists():
                self._make_room()
                _render(catalog.root, volume, blocks, plan.table, stage)
        return self._checked.local(path)

    def _make_room(self) -> None:
        """Remove the oldest rendered parts beyond the bound, and what killed processes left."""
        files = sorted(_files(self._folder))
        total = sum(size for _, size, _ in files)
        for _, size, path in files:
            if total <= self._rendered_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size


def _files(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """Every file with its time and size, unless another process removes it just now."""
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            found = path.stat()
            if stat.S_ISREG(found.st_mode):
                yield found.st_mtime, found.st_size, path


def _render(root: Path, volume: Volume, blocks: BlockRange, table: str, stage: PartStage) -> None:
    with (
        scratch_folder(root / "scratch") as scratch,
        rendered_table(root / volume.file, scratch, blocks, table) as text,
    ):
        receipt = text.receipt
        stage.write(receipt.segment, receipt.schema, text.header, text.body, receipt.rows)


def _widest(archive: Archive, plan: ExportPlan) -> Iterator[Entry]:
    """The published ZIPs of a plan, the widest at each place: fewer directories are to be read."""
    inside = (
        entry
        for entry in archive.entries(plan.table, plan.blocks)
        if plan.blocks.first <= entry.blocks.first and entry.blocks.last <= plan.blocks.last
    )
    following = plan.blocks.first
    for entry in sorted(inside, key=lambda entry: (entry.blocks.first, -entry.blocks.last)):
        if entry.blocks.first >= following:
            yield entry
            following = entry.blocks.last + 1


def _outside(segments: Iterable[BlockRange], covered: Sequence[BlockRange]) -> Iterator[BlockRange]:
    """The segments, ascending, that lie in none of the ranges, which ascend as well."""
    at = 0
    for segment in segments:
        while at < len(covered) and covered[at].last < segment.first:
            at += 1
        if at == len(covered) or not covered[at].overlaps(segment):
            yield segment
