"""Writing files of the lake anew, from the warehouse: merged, or corrected on the record.

A rewritten run takes the place of the old files in one version of the table: no reader sees less
or twice. What the old version named stays for `KEPT_HOURS`. Runs are written from the volumes and
never from the lake itself, so that types and statistics stay those of every other file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from exporters.archive.archive import won_race
from exporters.archive.lake_place import RECEIPTS
from exporters.archive.revisions import Revision, record
from exporters.lake.lake_file_check import FileCheck
from exporters.lake.lake_files import PARQUET_TYPE, FileName, Lake
from exporters.lake.new_files import NewFile, new_file, receipts_of
from exporters.lake.proving import fetched
from exporters.lake.receipt_file import read_receipt_rows, receipt_rows
from exporters.lake.tables import HeldFile, LakeTable, Version
from exporters.publishing.replace import Correction
from transforms.block_range import BlockRange, contiguous_runs
from transforms.errors import IntegrityError, RangeError
from transforms.lake.parquet_rows import LakeRows
from transforms.scratch import scratch_folder
from transforms.stores.store import object_sha256
from transforms.warehouse.manifests.receipts import Receipt

_SEGMENTS = 50  # of a file that takes the place of foreign ones: merging makes larger ones


def merge_files(version: Version, run: BlockRange, rows: LakeRows, scratch: Path) -> Version:
    """Make one file of those in a run of segments, which hold what `rows` has.

    Raises `LostRaceError` where somebody else changed the table meanwhile.
    """
    table = LakeTable(version.lake, version.table)
    with scratch_folder(scratch) as folder:
        new = new_file(rows, version.table, run, folder, version.spelling)
        added = table.upload(new)
        old = [lake_file.file for lake_file in version.holding(run)]
        return table.commit(version, [added], new.columns, old, changes_data=False)


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
    version: Version, targets: Sequence[BlockRange], loaded_segments: Sequence[BlockRange]
) -> Iterator[Rewrite]:
    """What hangs together: files that hold any of the wanted segments, all loaded segments in them.

    A file goes whole or not at all, so where segments are cut otherwise now, or a table has blocks
    twice, one thing leads to another. Segments that no file holds are not among it: they are not
    corrected but published. Ascending. Raises `RangeError` where a file holds blocks that
    are not loaded: they would be lost.
    """
    chosen = frozenset(targets)
    for rewrite in _connected(version.ours, loaded_segments):
        if not rewrite.old or chosen.isdisjoint(rewrite.segments):
            continue
        for file in rewrite.old:
            if not any(whole.holds(file.blocks) for whole in rewrite.runs):
                raise RangeError(
                    f"{version.lake.place(version.table, file.file.name)} holds blocks that the "
                    "warehouse lacks: load their segments first"
                )
        yield rewrite


def _connected(files: Sequence[HeldFile], loaded_blocks: Sequence[BlockRange]) -> Iterator[Rewrite]:
    """Files and segments in groups that share no block, ascending."""
    parts: list[tuple[BlockRange, HeldFile | None]] = [(file.blocks, file) for file in files]
    parts += [(blocks, None) for blocks in loaded_blocks]
    old: list[HeldFile] = []
    segments: list[BlockRange] = []
    last = -1
    for blocks, file in sorted(parts, key=lambda part: part[0]):
        if blocks.first > last and last >= 0:
            yield Rewrite(tuple(old), tuple(segments))
            old, segments = [], []
        last = max(last, blocks.last)
        if file is None:
            segments.append(blocks)
        else:
            old.append(file)
    if last >= 0:
        yield Rewrite(tuple(old), tuple(segments))


@dataclass(frozen=True, slots=True)
class LoadedRows:
    """What a table may be written anew from: the loaded segments, ascending, and their rows.

    `due` says which of some segments should be in the table: those that are published, and fit.
    """

    segments: Sequence[BlockRange]
    opened: Callable[[Sequence[BlockRange]], AbstractContextManager[LakeRows]]
    due: Callable[[Sequence[BlockRange]], Sequence[BlockRange]]


def correct_table(
    lake: Lake,
    table: str,
    targets: Sequence[BlockRange],
    loaded_rows: LoadedRows,
    correction: Correction,
    scratch: Path,
) -> int:
    """Put the loaded rows of wanted segments into a table where it has other ones, on the record.

    Files that Strata did not write are named no longer; what they had, and all else that lacks,
    comes in the same version, so that no reader sees less. Returns how many files were written
    or dropped. Raises `RangeError` as `rewrites` does, `BusyError` where others keep changing it.
    """
    remaining, changed = set(targets), 0

    def correct() -> None:
        nonlocal changed
        version = LakeTable(lake, table).version()
        if version is None:
            return
        if version.foreign:
            new = _lacking(version, loaded_rows, scratch)
            version, count = put_in_place(version, (), new, correction)
            changed += count
        for rewrite in rewrites(version, sorted(remaining), loaded_rows.segments):
            with loaded_rows.opened(rewrite.segments) as rows:
                if not _is_right(version, rewrite, rows, scratch):
                    with scratch_folder(scratch) as folder:
                        files = _new_files(version, rows, rewrite.runs, folder)
                        version, count = put_in_place(version, rewrite.old, files, correction)
                    changed += count
            remaining.difference_update(rewrite.segments)

    won_race(correct, lake.place(table))
    return changed


def _lacking(version: Version, loaded_rows: LoadedRows, scratch: Path) -> Iterator[NewFile]:
    """Files of what a table should have, besides what Strata's own files in it have."""
    there = [file.blocks for file in version.ours]
    lacking = [segment for segment in loaded_rows.segments if not any(map(segment.overlaps, there))]
    for start in range(0, len(lacking), _SEGMENTS):
        if due := loaded_rows.due(lacking[start : start + _SEGMENTS]):
            with loaded_rows.opened(due) as rows, scratch_folder(scratch) as folder:
                yield from _new_files(version, rows, contiguous_runs(due), folder)


def _new_files(
    version: Version, rows: LakeRows, runs: Iterable[BlockRange], folder: Path
) -> Iterator[NewFile]:
    """A file for each run in which the table has rows, in folders of their own."""
    with_rows = rows.segments(version.table)
    for number, run in enumerate(runs):
        if version.table != RECEIPTS and not any(map(run.holds, with_rows)):
            continue
        place = folder / str(number)
        place.mkdir()
        yield new_file(rows, version.table, run, place, version.spelling)


def put_in_place(
    version: Version, old: Sequence[HeldFile], new: Iterable[NewFile], correction: Correction
) -> tuple[Version, int]:
    """Let a table have new files instead of old ones and of foreign ones, in one version of it.

    Every file that goes is in the revisions before it does, with the reason. What the log says of a
    file that stays, because the new one has the same bytes, is said anew. Returns that version, and
    how many files were written or named no longer for being foreign. Raises `LostRaceError` where
    the version is not the newest.
    """
    lake, table = version.lake, LakeTable(version.lake, version.table)
    added, columns, hashes = [], [], []
    for parquet in new:
        hashes.append(parquet.sha256)
        _put_right(lake, lake.path(version.table, parquet.name), parquet, correction)
        added.append(table.upload(parquet))
        columns += [column for column in parquet.columns if column not in columns]
    names = {item.name for item in added}
    going = [*version.foreign, *(item.file for item in old if item.file.name not in names)]
    for file in going:
        path, parts = lake.path(version.table, file.name), FileName.parse(file.name)
        _record(lake, path, parts.digest if parts else "unknown", "".join(hashes[:1]), correction)
    following = table.commit(version, added, columns, going)
    return following, len(added) + len(version.foreign)


def _is_right(version: Version, rewrite: Rewrite, rows: LakeRows, scratch: Path) -> bool:
    """Whether the files hold just these segments, each once, and render what was loaded."""
    ranges = sorted(file.blocks for file in rewrite.old)
    if any(first.overlaps(second) for first, second in pairwise(ranges)):
        return False
    if [*contiguous_runs(ranges)] != rewrite.runs:
        return False

    def receipts(file: HeldFile) -> Sequence[Receipt]:
        if version.table == RECEIPTS:
            return receipts_of(rows, file.blocks)
        return rows.of(version.table, file.blocks)

    return all(is_sound(version, file, receipts(file), scratch) for file in rewrite.old)


def is_sound(version: Version, file: HeldFile, receipts: Sequence[Receipt], scratch: Path) -> bool:
    """Whether a file is there, whole, has what these receipts say, and is described by the log.

    Of the table `receipts`, it must have these.
    """
    with scratch_folder(scratch) as folder:
        copy = folder / "file.parquet"
        try:
            fetched(version.lake, version.table, file, copy)
            if version.table == RECEIPTS and read_receipt_rows(copy) != receipt_rows(receipts):
                return False
        except IntegrityError:
            return False
        return not any(FileCheck(version, file, copy, folder, receipts).problems())


def _record(lake: Lake, path: str, known_hash: str, new: str, correction: Correction) -> None:
    """Write down that a file goes, and which one comes; where several do, the first of them.

    `known_hash` stands for its hash where it is gone: all that is left of it.
    """
    try:
        old = object_sha256(lake.archive.store, lake.archive.key(path))
    except FileNotFoundError:
        old = known_hash
    record(lake.archive, Revision(path, old, new, correction.reason, correction.at))


def _put_right(lake: Lake, path: str, file: NewFile, correction: Correction) -> None:
    """Where other bytes lie under the name of a file, put the right ones there, on the record."""
    store, key = lake.archive.store, lake.archive.key(path)
    info = store.head(key)
    if info is None or object_sha256(store, key) == file.sha256:
        return
    _record(lake, path, "", file.sha256, correction)
    store.put_if_match(key, file.path, info.version, PARQUET_TYPE, sha256=file.sha256)
