"""Parts waiting to be published: a local folder of single-segment ZIPs.

`<root>/<chain id>/<table>/<zip name>`; unfinished files lie in `<root>/unfinished` only.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from exporters.names import NameStyle, csv_name, zip_name
from exporters.zips.part_zip import write_part_zip
from exporters.zips.parts import PartRef, read_parts
from exporters.zips.runs import DEFAULT_LEVEL
from exporters.zips.sources import LocalSource
from transforms.blocks import BlockRange
from transforms.files import TEMP_SUFFIX
from transforms.segments.names import SegmentName
from transforms.tables.registry import HISTORY_TABLES, TableSchema


@dataclass(frozen=True, slots=True)
class PartStage:
    """A folder of parts. Any number of processes may write it; the same part twice is one part.

    `durable` makes each part survive a power cut; without it a load must be repeated after one.
    """

    root: Path
    style: NameStyle = NameStyle.SPEC
    level: int = DEFAULT_LEVEL
    durable: bool = True

    @property
    def scratch(self) -> Path:
        """Where unfinished files lie; they are on the stage's own file system."""
        return self.root / "unfinished"

    def write(
        self,
        segment: SegmentName,
        schema: TableSchema,
        header: bytes,
        body: Iterable[bytes],
        rows: int,
    ) -> None:
        """Keep one table of one segment as a part, replacing an earlier one.

        Only the tables of the network's history are kept. What `body` raises passes through, and
        then nothing is kept.
        """
        if schema.table not in HISTORY_TABLES:
            deque(body, maxlen=0)  # the caller proves the text while it is read
            return
        named = (segment.chain_id, schema.table)
        write_part_zip(
            self.path(*named, segment.blocks),
            csv_name(*named, segment.version, segment.blocks, self.style),
            header,
            body,
            rows,
            self.level,
            scratch=self.scratch,
            durable=self.durable,
        )

    def path(self, chain_id: str, table: str, blocks: BlockRange) -> Path:
        """Where the part of a table over `blocks` lies, if it is there."""
        return self.root / chain_id / table / zip_name(chain_id, table, blocks, self.style)

    def find(self, chain_id: str, table: str, blocks: BlockRange) -> PartRef | None:
        """The part of a table over exactly `blocks`, ready to splice, or None where it is absent.

        Raises `IntegrityError` where the file is damaged.
        """
        try:
            source = LocalSource.open(self.path(chain_id, table, blocks))
        except FileNotFoundError:
            return None
        return read_parts(source)[0]

    def remove(self, chain_id: str, table: str, blocks: BlockRange) -> None:
        """Forget a part, for instance once it is published; an absent one is no error."""
        self.path(chain_id, table, blocks).unlink(missing_ok=True)

    def sweep(self, older_than: timedelta = timedelta(hours=1)) -> Iterator[Path]:
        """Delete what killed processes left unfinished, yielding each path.

        A live writer touches its file all the time, so only files left alone for `older_than` go.
        """
        limit = time.time() - older_than.total_seconds()
        for path in self.scratch.glob(f"*{TEMP_SUFFIX}"):
            if path.stat().st_mtime <= limit:
                path.unlink(missing_ok=True)
                yield path
