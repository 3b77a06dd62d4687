"""The segments of manifests as columns: a history has 75,000, which as objects take 100 MB."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path

from transforms.block_range import BlockRange, contiguous_runs
from transforms.segments.id_chain import IdRun, other_id
from transforms.warehouse.manifests.manifest import read_columns

_NUMBERS = ("first_block", "last_block", "schema_version", "source_size")
_TEXTS = ("segment_id", "previous_id", "chain_id", "source_key", "index_id")


@dataclass(frozen=True)
class SegmentList:
    """Segments, ascending.

    `sizes` and `keys` are those of their files, `index_ids` their ids by the word of a source's
    `index.json`.
    """

    firsts: Sequence[int]
    lasts: Sequence[int]
    versions: Sequence[int]
    sizes: Sequence[int]
    ids: Sequence[str]
    previous: Sequence[str]
    chains: Sequence[str]
    keys: Sequence[str]
    index_ids: Sequence[str]

    @classmethod
    def joined(cls, lists: Iterable[SegmentList]) -> SegmentList:
        """The segments of volumes, each of which is a run without a gap."""
        ascending = sorted(filter(len, lists), key=lambda segments: segments.firsts[0])
        columns = ([getattr(one, each.name) for one in ascending] for each in fields(cls))
        return cls(*([*chain.from_iterable(column)] for column in columns))

    def __len__(self) -> int:
        return len(self.firsts)

    @cached_property
    def blocks(self) -> tuple[BlockRange, ...]:
        """The blocks of each segment, made when they are first asked for."""
        return tuple(map(BlockRange, self.firsts, self.lasts))

    def id_runs(self) -> list[IdRun]:
        """The segments for the chain of ids, as few runs as can be said without judging."""
        blocks, ids, before = self.blocks, self.ids, self.previous
        if list(before[1:]) == list(ids[:-1]) and len([*contiguous_runs(blocks)]) == 1:
            return [IdRun(blocks[0], blocks[-1], ids[-1], before[0])]
        return list(map(IdRun, blocks, blocks, ids, before))

    def index_claims(self) -> Iterator[tuple[str, str, str]]:
        """Of which a source's index said another id: key of the file, id, the index's word."""
        rows = zip(self.keys, self.ids, self.index_ids, strict=True)
        return (row for row in rows if other_id(row[1], row[2]))


@lru_cache(maxsize=4096)
def segment_list(manifest: Path) -> SegmentList:
    """The segments of a manifest, in memory from then on; see `read_columns`."""
    table = read_columns(manifest, (*_NUMBERS, *_TEXTS))
    numbers = (array("q", table.column(name).to_pylist()) for name in _NUMBERS)
    texts = (table.column(name).to_pylist() for name in _TEXTS)
    shared: dict[str, str] = {}  # a previous id is the id of another segment
    return SegmentList(
        *numbers, *([shared.setdefault(text, text) for text in column] for column in texts)
    )
