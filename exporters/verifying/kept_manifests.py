"""The lake's manifests on this machine's disk: a large lake has a million receipts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.coverage import difference, union
from transforms.duck import Connection, quote_files
from transforms.warehouse.manifests.manifest import receipts_source
from transforms.warehouse.manifests.manifest_rows import read_receipts
from transforms.warehouse.manifests.receipts import Receipt


@dataclass
class KeptManifests:
    """Proven manifests by their blocks, which `opened` reads; none is known in `lacking`."""

    opened: Connection
    files: dict[BlockRange, Path] = field(default_factory=dict)
    lacking: list[BlockRange] = field(default_factory=list)

    def lacks(self, blocks: BlockRange) -> bool:
        """Whether nothing can be said of any of these blocks, for a damage that was found."""
        return any(map(blocks.overlaps, self.lacking))

    def of(self, table: str, blocks: BlockRange) -> list[Receipt] | None:
        """The receipts of a table in the segments of a file over these blocks, ascending.

        None where they are not known: manifests do not tell of all of these blocks.
        """
        if self.lacks(blocks) or difference((blocks,), union(self.files)):
            return None
        return self.receipts(blocks, f"and table_name = '{table}'")

    def receipts(self, blocks: BlockRange, more: str = "") -> list[Receipt]:
        """The receipts of segments that begin in these blocks, ascending; `more` is SQL."""
        files = [path for own, path in self.files.items() if own.overlaps(blocks)]
        if not files:
            return []
        query = (
            f"from {receipts_source(quote_files(files))} where first_block "
            f"between {blocks.first} and {blocks.last} {more} order by first_block"
        )
        # A result of another query may be unfinished.
        return read_receipts(self.opened.cursor(), query, {})
