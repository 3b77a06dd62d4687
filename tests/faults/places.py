"""Where tries happen: a home with source, warehouse, archive and Dagster's folder, in known states.

A state is made once by undisturbed commands, and copied for each try to the one path that all tries
of a process share: views and proofs name files by path.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.archive_kit import without_old_shards
from tests.faults.children import in_child, use
from tests.faults.commands import run_strata
from tests.lake_readers import active_files
from tests.segments_kit import KIT_CHAIN, build_segment, table_rows
from tests.transforms.warehouse_kit import STATE_TABLES

BLOCKS = 10
SEGMENTS = 3
SMALL_SEGMENTS = 4
DELTA_LOG = "_delta_log"
"""A folder of commits, which hold their times and random ids: `verify` proves them, not bytes."""

_KEPT_STATE = {"parties", "orders_live"}


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of a try, and one beside it for what a try writes that faults do not reach."""

    home: Path
    notes: Path

    @property
    def warehouse(self) -> Path:
        return self.home / "warehouse"

    @property
    def archive(self) -> Path:
        return self.home / "archive"

    def environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Everything that a command reads lies below `home`."""
        return {
            "STRATA_SOURCE": str(self.home / "source"),
            "STRATA_WAREHOUSE": str(self.warehouse),
            "STRATA_ARCHIVE": str(self.archive),
            "DAGSTER_HOME": str(self.home / "dagster"),
            "TMPDIR": str(self.home / "tmp"),
            **settings,
        }


def write_segments(source: Path, numbers: Sequence[int], changed: int | None = None) -> None:
    """Write segments of ten blocks; the last one has a current state.

    `changed` is the number of one whose orders are others than usual.
    """
    for number in numbers:
        first = number * BLOCKS + 1
        price = "7" if number == changed else "5"
        rows = [{"price": price, "size": str(at)} for at in range(number + 2)]
        kept = _KEPT_STATE if number == numbers[-1] else set[str]()
        build_segment(
            source,
            first=first,
            last=first + BLOCKS - 1,
            tables={
                "orders": table_rows("orders", *rows, first=first),
                "trades": table_rows("trades", *[{"size": "3"}] * 4, first=first),
            },
            omit=set(STATE_TABLES) - kept,
        )


def write_captures(source: Path) -> None:
    """Write two files of spam captures."""
    (source / "spam").mkdir()
    for height in (7, 15):
        statistics = {"epochSeq": str(height)}
        line = {"partyId": f"{height:064x}", "chainId": KIT_CHAIN, "statistics": statistics}
        (source / "spam" / f"{KIT_CHAIN}-{height}.ndjson").write_text(f"{json.dumps(line)}\n")


def empty_home(place: Place) -> None:
    """Make the folders of a home anew, with nothing in them."""
    shutil.rmtree(place.home, ignore_errors=True)
    for folder in (place.home / "source", place.home / "tmp", place.notes):
        folder.mkdir(parents=True, exist_ok=True)


class OpenSnapshots:
    """The states of one place: each made when it is first asked for, then copied."""

    def __init__(self, place: Place, folder: Path) -> None:
        self._place = place
        self._folder = folder

    def restore(self, name: str, make: Callable[[Place], None]) -> None:
        """Let the home be in the state that `make` makes of an empty one."""
        kept = self._folder / name
        if not kept.exists():
            empty_home(self._place)
            make(self._place)
            shutil.copytree(self._place.home, kept, symlinks=True)
        else:
            shutil.rmtree(self._place.home)
            shutil.copytree(kept, self._place.home, symlinks=True)


def undisturbed(place: Place, settings: Mapping[str, str], *commands: Sequence[str]) -> None:
    """Run commands that must succeed."""

    def work() -> int:
        use(place.environment(settings))
        return max(run_strata(list(command)) for command in commands)

    ended = in_child(work, place.notes)
    assert ended.code == 0, f"{commands}: {ended.code}\n{ended.out}\n{ended.err}"


def archive_files(place: Place) -> dict[str, bytes]:
    """Every published file, and of the lake the rows that its tables name, by their blocks.

    Logs have the time of each commit in them, each data file is one of its kind, and manifests have
    the source's own version of each segment, as when it was written.
    """
    files = {
        str(path.relative_to(place.archive)): path.read_bytes()
        for path in sorted(place.archive.rglob("*"))
        if path.is_file()
        and "lake" not in path.parts
        and not any(part.startswith(".") for part in path.parts)
    }
    files = without_old_shards(files)
    for log in sorted(place.archive.glob(f"*/lake/*/{DELTA_LOG}")):
        for path in active_files(log.parent):  # deltalake does not work in forks of who opened it
            blocks = path.name.partition(".")[0]
            rows = pq.ParquetFile(path).read(use_threads=False).replace_schema_metadata(None)
            rows = rows.select([name for name in rows.column_names if name != "source_version"])
            files[f"{log.parent.relative_to(place.archive)}/{blocks}"] = _content(rows)
    return files


def _content(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows.combine_chunks())
    return bytes(sink.getvalue())
