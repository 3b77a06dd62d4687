"""Whether an entry is named by what it holds: its path, its CSVs (spec 2.8.6 and 2.8.7)."""

from __future__ import annotations

from exporters.archive.entries import Csv, Entry
from exporters.zip_names import NameStyle, csv_name, zip_name
from transforms.block_range import BlockRange, contiguous_runs
from transforms.errors import IntegrityError, SegmentError


def check_entry(entry: Entry, chain_id: str, place: str) -> None:
    """Raise `IntegrityError` where chain, table or blocks of an entry contradict its names.

    `place` is the document that has the entry.
    """
    folder, _, name = entry.path.partition("/")
    is_named = folder == entry.table and _is_zip_of(name, chain_id, entry)
    if not is_named or not all(_is_csv_of(csv, chain_id, entry.table) for csv in entry.members):
        raise _contradiction(entry, place, f"is not named as one of chain {chain_id} is")
    for ranges in (
        [segment.blocks for segment in entry.segments],
        [csv.blocks for csv in entry.members],
    ):
        if not _joins(ranges, entry.blocks):
            raise _contradiction(entry, place, f"has pieces that are not blocks {entry.blocks}")


def _is_zip_of(name: str, chain_id: str, entry: Entry) -> bool:
    return any(name == zip_name(chain_id, entry.table, entry.blocks, style) for style in NameStyle)


def _is_csv_of(csv: Csv, chain_id: str, table: str) -> bool:
    about = (chain_id, table, csv.version, csv.blocks)
    return any(csv.name == csv_name(*about, style) for style in NameStyle)


def _joins(ranges: list[BlockRange], whole: BlockRange) -> bool:
    try:
        return ranges == sorted(ranges) and list(contiguous_runs(ranges)) == [whole]
    except SegmentError:
        return False


def _contradiction(entry: Entry, place: str, what: str) -> IntegrityError:
    return IntegrityError(
        f"{place}: {entry.path} ({entry.table}, blocks {entry.blocks}) {what}: strata publish "
        "makes the document again"
    )
