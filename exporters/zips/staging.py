"""Staged ZIPs, the parts that wait to be published: a local folder of single-segment ZIPs.

`<root>/<chain id>/<table>/<zip name>`, and beside each its hash as it was written, in a file as
`sha256sum` writes it. A power cut may damage them: they are rendered again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exporters.zip_names import NameStyle, csv_name, zip_name
from exporters.zips.runs import DEFAULT_LEVEL
from transforms.block_range import BlockRange
from transforms.files import link
from transforms.scratch import sweep_scratch
from transforms.tables.registry import HISTORY_TABLES

if TYPE_CHECKING:
    from transforms.segments.table_text import TableText

_KEPT_SECONDS = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class PartStage:
    """A folder of parts. Any number of processes may write it; the same part twice is one part."""

    root: Path
    style: NameStyle = NameStyle.SPEC
    level: int = DEFAULT_LEVEL

    @property
    def scratch(self) -> Path:
        """Where who publishes parts has unfinished files, on the file system of the parts."""
        return self.root / "unfinished"

    def write(
        self, csv: TableText, body: Iterable[bytes], scratch: Path, header: bytes = b""
    ) -> None:
        """Keep one table of one segment as a part, replacing an earlier one.

        `body` follows its header, or `header` where that is another. What `body` raises passes
        through, and then nothing is kept. Unfinished files lie in `scratch`, on the stage's own
        file system.
        """
        # Whoever only looks at what waits neither writes nor reads a ZIP.
        from exporters.zips.part_zip import write_part_zip

        segment, identity = csv.segment, (csv.segment.chain_id, csv.table)
        path = self.path(*identity, segment.blocks)
        part = write_part_zip(
            path,
            csv_name(*identity, segment.version, segment.blocks, self.style),
            header or csv.schema.header,
            body,
            csv.rows,
            self.level,
            scratch=scratch,
        )
        # A kill before this line, or a power cut soon after it, leaves a part whose hash is not
        # known or another one: it counts as damaged and is rendered again.
        _hash_file(path).write_bytes(f"{part.sha256}  {path.name}\n".encode())

    def link(self, stage: PartStage, chain_id: str, table: str, blocks: BlockRange) -> None:
        """Have a part of another folder here, too, whoever removes it there.

        Raises `FileNotFoundError` where it, or its hash, is not there.
        """
        there, here = (one.path(chain_id, table, blocks) for one in (stage, self))
        here.parent.mkdir(parents=True, exist_ok=True)
        link(there, here)
        shutil.copyfile(_hash_file(there), _hash_file(here))

    def path(self, chain_id: str, table: str, blocks: BlockRange) -> Path:
        """Where the part of a table over `blocks` lies, if it is there."""
        return self.root / chain_id / table / zip_name(chain_id, table, blocks, self.style)

    def sha256(self, chain_id: str, table: str, blocks: BlockRange) -> str | None:
        """The hash of a part as it was written (hex); None where the part or its hash lacks.

        The part is not read: what it hashes to now may be something else.
        """
        path = self.path(chain_id, table, blocks)
        if not path.exists():
            return None
        try:
            line = _hash_file(path).read_bytes().decode(errors="replace")
        except FileNotFoundError:
            return None
        return line.partition(" ")[0] or None

    def remove(self, chain_id: str, table: str, blocks: BlockRange) -> None:
        """Forget a part, for instance once it is published; an absent one is no error."""
        path = self.path(chain_id, table, blocks)
        path.unlink(missing_ok=True)
        _hash_file(path).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Delete the scratch folders of processes that are gone, and parts of a week ago.

        Another machine may have published these; who still needs one renders it again.
        """
        sweep_scratch(self.scratch)
        oldest = time.time() - _KEPT_SECONDS
        for table in HISTORY_TABLES:
            for path in self.root.glob(f"*/{table}/*"):
                with suppress(FileNotFoundError):
                    if path.stat().st_mtime < oldest:
                        path.unlink()

    def make_room(self, most_bytes: int) -> None:
        """Remove the oldest parts beyond this many bytes; who needs one renders it again."""
        statuses = []
        for table in HISTORY_TABLES:
            for path in self.root.glob(f"*/{table}/*.zip"):
                with suppress(FileNotFoundError):  # another process removes it just now
                    statuses.append((path, path.stat()))
        total = sum(status.st_size for _, status in statuses)
        for path, status in sorted(statuses, key=lambda item: item[1].st_mtime):
            if total <= most_bytes:
                return
            path.unlink(missing_ok=True)
            _hash_file(path).unlink(missing_ok=True)
            total -= status.st_size


def _hash_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.sha256")
