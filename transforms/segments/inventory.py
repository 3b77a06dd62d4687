"""The inventory: what a source holds, in order, and what of it cannot be used (pure, no I/O).

Boundaries come from here and never from arithmetic: segments have any length (spec 8, 4.1).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from transforms.blocks import BlockRange, contiguous_runs, gaps_between
from transforms.errors import SegmentError
from transforms.objects import ObjectInfo
from transforms.segments.names import SegmentName


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """One usable segment file of a source: what its name says, and where it lies.

    `index_id` and `index_previous_id` are the ids of the segment and of the one before it by the
    source's `index.json`; empty where it does not say.
    """

    name: SegmentName
    info: ObjectInfo
    index_id: str = ""
    index_previous_id: str = ""

    @property
    def blocks(self) -> BlockRange:
        """The blocks that the segment covers."""
        return self.name.blocks


@dataclass(frozen=True, slots=True)
class Refusal:
    """A file of a source that cannot be used, and the reason as a sentence."""

    info: ObjectInfo
    reason: str

    @property
    def key(self) -> str:
        """The file's key in its source."""
        return self.info.key


@dataclass(frozen=True, slots=True)
class Inventory:
    """All segments of one chain that a source offers, ascending, and the files it must refuse."""

    chain_id: str
    segments: tuple[SegmentFile, ...]
    refused: tuple[Refusal, ...]

    @property
    def runs(self) -> tuple[BlockRange, ...]:
        """The longest contiguous runs of blocks, ascending."""
        return tuple(contiguous_runs(segment.blocks for segment in self.segments))

    @property
    def gaps(self) -> tuple[BlockRange, ...]:
        """The blocks that are missing between the runs."""
        return tuple(gaps_between(self.runs))


@dataclass(frozen=True, slots=True)
class SourceIndex:
    """Ids that a source's `index.json` gives for segment files, by file name."""

    segment_ids: Mapping[str, str]
    previous_ids: Mapping[str, str]


NO_INDEX = SourceIndex({}, {})


def take_inventory(
    objects: Iterable[ObjectInfo], index: SourceIndex = NO_INDEX, held: Collection[SegmentName] = ()
) -> Inventory:
    """Sort a source's ZIP files into segments and refusals (decision 9).

    `held` are the segments already loaded: their chain is the chain, and a newcomer that conflicts
    with one of them is the one refused. Otherwise every party of a conflict is refused, since
    nothing says which is right.
    """
    files, refused = _named(objects, index)
    chain_id = _chain(files, held)
    mine = [file for file in files if file.name.chain_id == chain_id]
    for file in files:
        if file.name.chain_id != chain_id:
            reason = f"{file.info.key} belongs to chain {file.name.chain_id}, not to {chain_id}"
            refused.append(Refusal(file.info, f"{reason}: keep one chain in a source"))
    conflicts = _conflicts(mine, held)
    refused.extend(Refusal(file.info, conflicts[file]) for file in mine if file in conflicts)
    usable = sorted((file for file in mine if file not in conflicts), key=lambda file: file.blocks)
    refused.sort(key=lambda refusal: refusal.info)
    return Inventory(chain_id, tuple(usable), tuple(refused))


def _named(
    objects: Iterable[ObjectInfo], index: SourceIndex
) -> tuple[list[SegmentFile], list[Refusal]]:
    files: list[SegmentFile] = []
    refused: list[Refusal] = []
    for info in objects:
        if not info.key.endswith(".zip"):
            continue
        try:
            name = SegmentName.parse(info.key)
        except SegmentError as error:
            refused.append(Refusal(info, str(error)))
            continue
        index_id = index.segment_ids.get(info.key, "")
        files.append(SegmentFile(name, info, index_id, index.previous_ids.get(info.key, "")))
    return files, refused


def _chain(files: Iterable[SegmentFile], held: Collection[SegmentName]) -> str:
    """The chain of what is loaded, else the one with most files (of equals the first by name)."""
    for name in held:
        return name.chain_id
    counts = Counter(file.name.chain_id for file in files)
    return min(counts, key=lambda chain: (-counts[chain], chain), default="")


def _conflicts(
    files: Iterable[SegmentFile], held: Collection[SegmentName]
) -> dict[SegmentFile, str]:
    """For each file that shares blocks with another one: the sentence that says with which."""
    held_names = sorted(set(held), key=lambda name: name.blocks)
    loaded = set(held_names)
    reasons: dict[SegmentFile, str] = {}
    free: list[SegmentFile] = []
    for file in sorted(files, key=lambda file: (file.blocks, file.info.key)):
        overlapped = None if file.name in loaded else _overlapped(file.blocks, held_names)
        if overlapped is None:
            free.append(file)
        else:
            reasons[file] = _sentence(file, f"{overlapped.file_name}, already loaded,")
    for cluster in _overlapping(free):
        for file in cluster:
            other = cluster[0] if file is not cluster[0] else cluster[1]
            reasons[file] = _sentence(file, other.info.key)
    return reasons


def _overlapped(blocks: BlockRange, names: Sequence[SegmentName]) -> SegmentName | None:
    """The first of the ascending, disjoint names that shares a block with `blocks`."""
    index = bisect_left(names, blocks.first, key=lambda name: name.blocks.last)
    if index < len(names) and names[index].blocks.overlaps(blocks):
        return names[index]
    return None


def _overlapping(files: Iterable[SegmentFile]) -> Iterator[list[SegmentFile]]:
    """Groups of two or more files, of ascending ones, of which each shares a block with another."""
    cluster: list[SegmentFile] = []
    reach = -1
    for file in files:
        if cluster and file.blocks.first > reach:
            if len(cluster) > 1:
                yield cluster
            cluster = []
        cluster.append(file)
        reach = max(reach, file.blocks.last)
    if len(cluster) > 1:
        yield cluster


def _sentence(file: SegmentFile, other: str) -> str:
    return f"{file.info.key} covers blocks that {other} covers too: remove the one that is wrong"
