"""Whether an entry is named by what it holds: its path, its CSVs (spec 2.8.6 and 2.8.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exporters.archive.entries import Entry
from exporters.zip_names import NameStyle, csv_name, zip_name
from transforms.block_range import BlockRange, contiguous_runs
from transforms.errors import IntegrityError

# Of 75,000 entries, iterating over the class takes as long as the names.
_STYLES = tuple(NameStyle)


@dataclass(frozen=True, slots=True)
class NamedZip:
    """What an entry says of a ZIP: its segments, and its CSVs by name, schema version, blocks."""

    table: str
    path: str
    segments: Sequence[BlockRange]
    csvs: Sequence[tuple[str, int, BlockRange]]

    @property
    def blocks(self) -> BlockRange:
        """From the first segment's first block to the last one's last."""
        first, last = self.segments[0], self.segments[-1]
        return first if first is last else BlockRange(first.first, last.last)


def check_entry(entry: Entry, chain_id: str, place: str) -> None:
    """Raise `IntegrityError` where chain, table or blocks of an entry contradict its names.

    `place` is the document that has the entry.
    """
    segments = [segment.blocks for segment in entry.segments]
    csvs = [(csv.name, csv.version, csv.blocks) for csv in entry.members]
    check_names(NamedZip(entry.table, entry.path, segments, csvs), chain_id, place)


def check_names(named: NamedZip, chain_id: str, place: str) -> None:
    """Raise as `check_entry` does where what is said of a ZIP contradicts its names."""
    table, blocks = named.table, named.blocks
    is_named = any(
        named.path == f"{table}/{zip_name(chain_id, table, blocks, style)}" for style in _STYLES
    )
    if not is_named or not all(_is_csv_of(csv, chain_id, table) for csv in named.csvs):
        raise _contradiction(named, place, f"is not named as one of chain {chain_id} is")
    if not (_joins(named.segments, blocks) and _joins([csv[2] for csv in named.csvs], blocks)):
        raise _contradiction(named, place, f"has pieces that are not blocks {blocks}")


def _is_csv_of(csv: tuple[str, int, BlockRange], chain_id: str, table: str) -> bool:
    name, version, blocks = csv
    return any(name == csv_name(chain_id, table, version, blocks, style) for style in _STYLES)


def _joins(ranges: Sequence[BlockRange], whole: BlockRange) -> bool:
    if len(ranges) == 1:
        return ranges[0] == whole
    return [*ranges] == sorted(ranges) and [*contiguous_runs(ranges)] == [whole]


def _contradiction(named: NamedZip, place: str, what: str) -> IntegrityError:
    return IntegrityError(
        f"{place}: {named.path} ({named.table}, blocks {named.blocks}) {what}: strata publish "
        "makes the document again"
    )
