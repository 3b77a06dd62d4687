"""The inventory: what a source holds, in order, and what of it cannot be used (pure, no I/O).

Boundaries come from here and never from arithmetic: segments have any length (spec 8, 4.1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from transforms.block_range import BlockRange
from transforms.errors import SegmentError
from transforms.objects import ObjectInfo
from transforms.segments.segment_name import SegmentName

_NO_FILE = (-1, "")
UNKNOWN_SIZE = 0
"""The size of a segment's file of which an archive tells the hash alone."""


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """One usable segment file of a source: what its name says, and where it lies.

    `index_id` is the id of the segment by the source's `index.json`; empty where it does not say.
    """

    name: SegmentName
    info: ObjectInfo
    index_id: str

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
class LoadedSegments:
    """What is loaded already, by which the listing of a source is judged.

    `files` has size and version of every loaded segment's file by its key; the size is
    `UNKNOWN_SIZE` where what is loaded came from an archive; `at` finds the name of the
    first loaded segment that shares a block with a range. `runs` are the runs of loaded blocks,
    ascending.
    """

    chain_id: str
    files: Mapping[str, tuple[int, str]]
    at: Callable[[BlockRange], SegmentName | None]
    runs: tuple[BlockRange, ...] = ()


NOTHING_HELD = LoadedSegments("", {}, lambda _blocks: None)


@dataclass(frozen=True, slots=True)
class Inventory:
    """All segments of one chain that a source offers, and the files that it must refuse.

    `fresh` are those that are not loaded, or with a file of another size, ascending; `loaded` the
    files of the others, which a long history nearly only has: no more is made of each than that.
    `altered` are those of `loaded` that have another version than the file that was loaded.
    """

    chain_id: str
    fresh: tuple[SegmentFile, ...]
    refused: tuple[Refusal, ...]
    loaded: tuple[ObjectInfo, ...] = ()
    altered: tuple[ObjectInfo, ...] = ()

    @property
    def segments(self) -> tuple[SegmentFile, ...]:
        """All of them, ascending; takes time for each."""
        files = (SegmentFile(SegmentName.parse(info.key), info, "") for info in self.loaded)
        return tuple(sorted((*files, *self.fresh), key=_first_block))

    @property
    def shown(self) -> tuple[BlockRange, ...]:
        """The blocks that the chain's other files show by their names, whatever they hold."""
        names = (_name(refusal.key) for refusal in self.refused)
        refused = (name.blocks for name in names if name and name.chain_id == self.chain_id)
        return (*(file.blocks for file in self.fresh), *refused)


def take_inventory(
    objects: Sequence[ObjectInfo],
    index_ids: Mapping[str, str] = MappingProxyType({}),
    contents: LoadedSegments = NOTHING_HELD,
) -> Inventory:
    """Sort a source's ZIP files into segments and refusals (decision 9).

    `index_ids` are the ids that its `index.json` gives, by file name. The chain of what is loaded
    is the chain, and a newcomer that conflicts with a loaded segment is the one refused. Otherwise
    every party of a conflict is refused, since nothing says which is right.
    """
    known = contents.files.get
    loaded_infos: list[ObjectInfo] = []
    altered: list[ObjectInfo] = []
    others: list[ObjectInfo] = []
    for info in objects:
        size, version = known(info.key, _NO_FILE)
        is_loaded = size in (info.size, UNKNOWN_SIZE)
        (loaded_infos if is_loaded else others).append(info)
        if version != info.version and size == info.size:
            altered.append(info)
    files, refused = _named(others, index_ids)
    chain_id = contents.chain_id or _chain(files)
    mine = [file for file in files if file.name.chain_id == chain_id]
    for file in files:
        if file.name.chain_id != chain_id:
            reason = f"{file.info.key} belongs to chain {file.name.chain_id}, not to {chain_id}"
            refused.append(Refusal(file.info, f"{reason}: keep one chain in a source"))
    conflicts = _conflicts(mine, contents)
    refused.extend(Refusal(file.info, conflicts[file]) for file in mine if file in conflicts)
    fresh = sorted((file for file in mine if file not in conflicts), key=_first_block)
    refused.sort(key=lambda refusal: refusal.info)
    loaded_files = tuple(loaded_infos), tuple(altered)
    return Inventory(chain_id, tuple(fresh), tuple(refused), *loaded_files)


def _name(key: str) -> SegmentName | None:
    try:
        return SegmentName.parse(key)
    except SegmentError:
        return None


def _first_block(file: SegmentFile) -> int:
    return file.name.blocks.first


def _named(
    objects: Iterable[ObjectInfo], index_ids: Mapping[str, str]
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
        files.append(SegmentFile(name, info, index_ids.get(info.key, "")))
    return files, refused


def _chain(files: Iterable[SegmentFile]) -> str:
    """The chain with most files (of equals the first by name)."""
    counts = Counter(file.name.chain_id for file in files)
    return min(counts, key=lambda chain: (-counts[chain], chain), default="")


def _conflicts(files: Iterable[SegmentFile], contents: LoadedSegments) -> dict[SegmentFile, str]:
    """For each file that shares blocks with another one: the sentence that says with which."""
    reasons: dict[SegmentFile, str] = {}
    farthest: SegmentFile | None = None  # of those that are not loaded
    for file in sorted(files, key=lambda file: (file.blocks, file.info.key)):
        loaded = contents.at(file.blocks)
        if loaded not in (None, file.name):
            reasons[file] = _sentence(file, f"{loaded.file_name}, already loaded,")
            continue
        if farthest and farthest.blocks.overlaps(file.blocks):
            reasons.setdefault(farthest, _sentence(farthest, file.info.key))
            reasons[file] = _sentence(file, farthest.info.key)
        if farthest is None or farthest.blocks.last < file.blocks.last:
            farthest = file
    return reasons


def _sentence(file: SegmentFile, other: str) -> str:
    return f"{file.info.key} covers blocks that {other} covers too: remove the one that is wrong"
