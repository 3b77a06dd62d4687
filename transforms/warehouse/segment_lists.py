"""The segments of a volume as servers hold them: columns in a mapped file, made from its record.

A history has 75,000 segments: as objects they take 100 MB and more than a second to make.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from transforms.blocks import BlockRange
from transforms.mapped_files import Mapped, numbers_section, packed, texts_sections
from transforms.warehouse.record import parse_record

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class SegmentList:
    """Columns of segments, ascending: blocks, schema versions, ids, previous ids, chain ids."""

    firsts: Sequence[int]
    lasts: Sequence[int]
    versions: Sequence[int]
    ids: Sequence[str]
    previous: Sequence[str]
    chains: Sequence[str]

    @classmethod
    def of(cls, held: Mapped) -> SegmentList:
        """The segments in a mapped file."""
        first, last, version = (held.numbers(name, "q") for name in ("first", "last", "version"))
        return cls(first, last, version, *map(held.texts, ("id", "previous", "chain")))

    def __len__(self) -> int:
        return len(self.firsts)

    def blocks(self) -> Iterator[BlockRange]:
        """The blocks of each."""
        return map(BlockRange, self.firsts, self.lasts)

    def _rows(self) -> Iterator[tuple[int, int, int, str, str, str]]:
        columns = (self.firsts, self.lasts, self.versions, self.ids, self.previous, self.chains)
        return zip(*columns, strict=True)

    def joined(self, other: SegmentList) -> SegmentList:
        """The segments of both."""
        return SegmentList(*map(list, zip(*sorted([*self._rows(), *other._rows()]), strict=True)))


def in_order(lists: Iterable[SegmentList]) -> list[SegmentList]:
    """Lists of the same segments, ascending, each behind the one before.

    They are the very lists, but for volumes that have segments between those of others.
    """
    found: list[SegmentList] = []
    for one in sorted(filter(len, lists), key=lambda one: one.firsts[0]):
        if found and one.firsts[0] < found[-1].lasts[-1]:
            found[-1] = found[-1].joined(one)
        else:
            found.append(one)
    return found


def file_name(record_sha256: str) -> str:
    """The name of the mapped file for a record; another release's is another one."""
    return f"{record_sha256}.{_FORMAT}.segments"


def packed_segments(record: Path) -> bytes:
    """The mapped file of a record. Raises `FileNotFoundError`, or `IntegrityError` if damaged."""
    found = parse_record(record)
    return packed(
        None,
        {
            "first": numbers_section("q", (one.blocks.first for one in found)),
            "last": numbers_section("q", (one.blocks.last for one in found)),
            "version": numbers_section("q", (one.name.version for one in found)),
            **texts_sections("id", [one.segment_id for one in found]),
            **texts_sections("previous", [one.previous_id for one in found]),
            **texts_sections("chain", [one.name.chain_id for one in found]),
        },
    )
