"""The segments of a volume as servers hold them: columns, read from its manifest.

A history has 75,000 segments: as objects they take 100 MB and more than a second to make.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.warehouse.manifests.manifest import read_columns

_NUMBERS = ("first_block", "last_block", "schema_version")
_TEXTS = ("segment_id", "previous_id", "chain_id")


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
    def of(cls, manifest: Path) -> SegmentList:
        """The segments of a manifest.

        Raises `FileNotFoundError`, and `IntegrityError` where it is damaged.
        """
        table = read_columns(manifest, (*_NUMBERS, *_TEXTS))
        numbers = (array("q", table.column(name).to_pylist()) for name in _NUMBERS)
        texts = (table.column(name).to_pylist() for name in _TEXTS)
        shared: dict[str, str] = {}  # a previous id is the id of another segment
        return cls(
            *numbers, *([shared.setdefault(text, text) for text in column] for column in texts)
        )

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
    result: list[SegmentList] = []
    for segments in sorted(filter(len, lists), key=lambda segments: segments.firsts[0]):
        if result and segments.firsts[0] < result[-1].lasts[-1]:
            result[-1] = result[-1].joined(segments)
        else:
            result.append(segments)
    return result
