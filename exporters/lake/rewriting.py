"""Writing files of the lake anew, from the warehouse: merged, or corrected on the record.

A rewritten run takes the place of the old files in one version of the table: no reader sees less
or twice. What the old version named stays for `KEPT_HOURS`. Runs are written from the volumes and
never from the lake itself, so that types and statistics stay those of every other file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from exporters.archive.lake_place import RECEIPTS
from exporters.archive.ledger import Replacement, record
from exporters.lake.lake import PARQUET_TYPE, FileName, Lake
from exporters.lake.new_files import new_file, receipts_of, scratch_folder
from exporters.lake.proving import fetched, prove_file
from exporters.lake.receipt_file import read_receipt_rows, receipt_rows
from exporters.lake.tables import HeldFile, LakeTable, NewFile, Version
from exporters.publishing.replace import Correction
from transforms.blocks import BlockRange, contiguous_runs
from transforms.errors import IntegrityError, RangeError
from transforms.lake.rows import LakeRows
from transforms.stores.store import content_sha256, object_sha256


def merge_files(
    lake: Lake, version: Version, old: Sequence[HeldFile], rows: LakeRows, scratch: Path
) -> None:
    """Make one file of neighbours (two or more, without a gap), which hold what `rows` has.

    Raises `LostRaceError` where somebody else changed the table meanwhile.
    """
    table = LakeTable(lake, version.table)
    run = BlockRange(old[0].blocks.first, old[-1].blocks.last)
    with scratch_folder(scratch) as folder:
        new = new_file(rows, version.table, run, folder, version.spelling)
        added = table.upload(new)
        table.commit(version, [added], new.columns, old, changes_data=False)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Files of a table that are to be written anew, and the segments that take their place."""

    old: tuple[HeldFile, ...]
    segments: tuple[BlockRange, ...]

    @property
    def runs(self) -> list[BlockRange]:
        """The segments without their borders: what new files are made of."""
        return [*contiguous_runs(self.segments)]


def rewrites(
    version: Version, wanted: Sequence[BlockRange], loaded: Sequence[BlockRange]
) -> Iterator[Rewrite]:
    """What hangs together: files that hold any of the wanted segments, all loaded segments in them.

    A file goes whole or not at all, so where segments are cut otherwise now, or a table has blocks
    twice, one thing leads to another. Ascending. Raises `RangeError` where a file holds blocks that
    are not loaded: they would be lost.
    """
    reached = set(wanted)
    while True:
        files = [file for file in version.parsed if _meets(file.blocks, reached)]
        more = {one for one in loaded if any(one.overlaps(file.blocks) for file in files)}
        if more <= reached:
            break
        reached |= more
    for run in _joined([*reached, *(file.blocks for file in files)]):
        rewrite = Rewrite(
            tuple(file for file in files if file.blocks.overlaps(run)),
            tuple(sorted(one for one in reached if one.overlaps(run))),
        )
        for file in rewrite.old:
            if not any(_holds(whole, file.blocks) for whole in rewrite.runs):
                raise RangeError(
                    f"{version.lake.place(version.table, file.file.name)} holds blocks that the "
                    "warehouse lacks: load their segments first"
                )
        yield rewrite


def _meets(blocks: BlockRange, others: set[BlockRange]) -> bool:
    return any(blocks.overlaps(other) for other in others)


def _holds(whole: BlockRange, part: BlockRange) -> bool:
    return whole.first <= part.first and part.last <= whole.last


def _joined(ranges: Sequence[BlockRange]) -> Iterator[BlockRange]:
    """Ranges that share blocks become one, ascending."""
    run: BlockRange | None = None
    for blocks in sorted(ranges):
        if run is not None and run.overlaps(blocks):
            run = BlockRange(run.first, max(run.last, blocks.last))
            continue
        if run is not None:
            yield run
        run = blocks
    if run is not None:
        yield run


def correct(
    lake: Lake,
    version: Version,
    rewrite: Rewrite,
    rows: LakeRows,
    correction: Correction,
    scratch: Path,
) -> int:
    """Put the loaded rows there, unless they are; returns the number of files that were written.

    Every file that goes is in the ledger before it does, with the reason. Raises `LostRaceError`
    where somebody else changed the table meanwhile.
    """
    if _is_right(lake, version, rewrite, rows, scratch):
        return 0
    table = LakeTable(lake, version.table)
    with scratch_folder(scratch) as folder:
        new: dict[str, tuple[NewFile, str]] = {}
        for number, run in enumerate(rewrite.runs):
            place = folder / str(number)
            place.mkdir()
            made = new_file(rows, version.table, run, place, version.spelling)
            sha256 = content_sha256(made.path)
            new[str(FileName.of(run, sha256))] = made, sha256
        old = {file.file.name: file for file in rewrite.old}
        going = [file for name, file in old.items() if name not in new]
        for file in going:
            _record(lake, version.table, file, [sha256 for _, sha256 in new.values()], correction)
        for name, (made, sha256) in new.items():
            _put_back(lake, version.table, name, made, sha256, correction)
        # Also what the table names already: it may have been removed.
        there = {name: table.upload(made) for name, (made, _) in new.items()}
        coming = [made for name, (made, _) in new.items() if name not in old]
        added = [file for name, file in there.items() if name not in old]
        if going or added:
            table.commit(version, added, [c for made in coming for c in made.columns], going)
    return len(new)


def _is_right(
    lake: Lake, version: Version, rewrite: Rewrite, rows: LakeRows, scratch: Path
) -> bool:
    """Whether the files hold just these segments, each once, and render what was loaded."""
    held = sorted(file.blocks for file in rewrite.old)
    if any(one.overlaps(other) for one, other in pairwise(held)):
        return False
    if [*contiguous_runs(held)] != rewrite.runs:
        return False
    try:
        for file in rewrite.old:
            _prove(lake, version.table, file, rows, scratch)
    except IntegrityError:
        return False
    return True


def _prove(lake: Lake, table: str, file: HeldFile, rows: LakeRows, scratch: Path) -> None:
    if table != RECEIPTS:
        prove_file(lake, table, file, rows.of(table, file.blocks), scratch)
        return
    with scratch_folder(scratch) as folder:
        copy = folder / "receipts.parquet"
        fetched(lake, table, file, copy)
        if read_receipt_rows(copy) != receipt_rows(receipts_of(rows, file.blocks)):
            raise IntegrityError(f"{lake.place(table, file.file.name)} says other than was loaded")


def _record(
    lake: Lake, table: str, file: HeldFile, new: Sequence[str], correction: Correction
) -> None:
    """Write down that a file goes, and which one comes; where several do, the first of them."""
    path = lake.path(table, file.file.name)
    try:
        old = object_sha256(lake.archive.store, lake.archive.key(path))
    except FileNotFoundError:
        old = file.name.digest  # what its name says is all that is left of it
    record(lake.archive, Replacement(path, old, new[0], correction.reason, correction.at))


def _put_back(
    lake: Lake, table: str, name: str, made: NewFile, sha256: str, correction: Correction
) -> None:
    """Where other bytes lie under the name of a file, put the right ones there, on the record."""
    store, key = lake.archive.store, lake.key(table, name)
    held = store.head(key)
    if held is None or (old := object_sha256(store, key)) == sha256:
        return
    place = lake.path(table, name)
    record(lake.archive, Replacement(place, old, sha256, correction.reason, correction.at))
    store.put_if_match(key, made.path, held.version, PARQUET_TYPE, sha256=sha256)
