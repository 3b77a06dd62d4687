"""The segments of a volume as servers hold them: columns in a mapped file, made from its manifest.

A history has 75,000 segments: as objects they take 100 MB and more than a second to make.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.mapped_files import Mapped, numbers_section, packed, texts_sections
from transforms.warehouse.manifest import parse_manifest

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
    def of(cls, file: Mapped) -> SegmentList:
        """The segments in a mapped file."""
        first, last, version = (file.numbers(name, "q") for name in ("first", "last", "version"))
        return cls(first, last, version, *map(file.texts, ("id", "previous", "chain")))

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


def file_name(manifest_sha256: str) -> str:
    """The name of the mapped file for a manifest; another release's is another one."""
    return f"{manifest_sha256}.{_FORMAT}.segments"


def packed_segments(manifest: Path) -> bytes:
    """The mapped file of a manifest. Raises `FileNotFoundError`, or `IntegrityError` if damaged."""
    segments = parse_manifest(manifest)
    return packed(
        None,
        {
            "first": numbers_section("q", (segment.blocks.first for segment in segments)),
            "last": numbers_section("q", (segment.blocks.last for segment in segments)),
            "version": numbers_section("q", (segment.name.version for segment in segments)),
            **texts_sections("id", [segment.segment_id for segment in segments]),
            **texts_sections("previous", [segment.previous_id for segment in segments]),
            **texts_sections("chain", [segment.name.chain_id for segment in segments]),
        },
    )
