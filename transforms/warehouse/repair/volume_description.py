"""Volumes as their manifests have them, and which of them are the warehouse without a log."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.duck import read_only_connection, working_connection
from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo, StoredFile
from transforms.scratch import scratch_folder
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.lost_files import damage
from transforms.warehouse.load.volume_storage import INDEX, store_new
from transforms.warehouse.load.volumes import volume_sources, write_index
from transforms.warehouse.log.addition import newest_states
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.manifest import (
    manifest_receipts,
    read_about,
    read_manifest,
    volume_of,
)
from transforms.warehouse.manifests.manifest_rows import Origin
from transforms.warehouse.manifests.receipts import LoadedSegment
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.repair.older_log import listed, listed_file, volume_blocks

Advance = Callable[[int], None]
"""Called with the bytes that were just read."""


@dataclass(frozen=True, slots=True)
class VolumeDescription:
    """A volume as its manifest has it, and its segments with the SHA-256 of their ZIPs."""

    volume: Volume
    origin: Origin
    chain_id: str
    segments: Mapping[BlockRange, str]


def describe_volume(
    backing: Backing, info: ObjectInfo, advance: Advance = lambda _: None
) -> VolumeDescription:
    """Hash a manifest with its data files, and read what it says.

    Raises `IntegrityError` where it is damaged, gone or not what its name says.
    """
    file = listed_file(info)
    _check_whole(backing, file, advance)
    backing.files.bring([file])
    path = backing.files.path(file)
    segments, about = read_manifest(path), read_about(path)
    volume = volume_of(file, about, segments, [*manifest_receipts([path])])
    if volume.blocks != volume_blocks(info.key):
        place = backing.store.describe(file.key)
        raise IntegrityError(f"{place} holds the blocks {volume.blocks}: it was renamed")
    for data in about.data.values():
        _check_whole(backing, data, advance)
    if volume.index and not backing.store.head(volume.index.key):
        volume = replace(volume, index=None)
    hashes = {segment.blocks: segment.sha256 for segment in segments}
    return VolumeDescription(volume, about.origin, segments[0].name.chain_id, hashes)


def _check_whole(backing: Backing, file: StoredFile, advance: Advance) -> None:
    """Raise `IntegrityError` where a file is missing, or does not hash to what its name says."""
    if problem := damage(backing.store, file, advance):
        raise IntegrityError(f"{backing.store.describe(file.key)} {problem}")


def with_index(backing: Backing, volume: Volume) -> Volume:
    """A volume with its index file, which is made from its tables."""
    with (
        backing.files.hold(volume.data.values()),
        scratch_folder(backing.scratch) as scratch,
        working_connection(scratch, memory_limit=backing.rendering_limit) as con,
    ):
        path = write_index(con, scratch, volume_sources(backing.files, volume))
        if path is None:
            return replace(volume, index=None)
        index = store_new(backing.store, backing.files, INDEX, volume.blocks, path)
        return replace(volume, index=index)


def newest_captures(backing: Backing) -> StoredFile | None:
    """The sound file of spam captures that was made of the most files; None without one.

    Each was made of all that its older one was; what lacks is loaded again from its source.
    """
    sound: list[tuple[int, StoredFile]] = []
    for info in listed(backing.store, "spam"):
        file = StoredFile(info.key, info.size, Path(info.key).stem)
        if not damage(backing.store, file):
            backing.files.bring([file])
            with read_only_connection(backing.files.path(file), threads=1) as con:
                ((count,),) = con.execute("select count(*) from files").fetchall()
            sound.append((count, file))
    return max(sound)[1] if sound else None


# --- which of them


def disagreement(
    entry: VolumeDescription, snapshot: Snapshot, segments: Mapping[BlockRange, LoadedSegment]
) -> str:
    """Why a volume cannot stand beside, or instead of, named ones; empty if it can.

    `segments` are those that the snapshot names.
    """
    if snapshot.chain_id not in ("", entry.chain_id):
        return f"it is of the chain {entry.chain_id}, the warehouse of {snapshot.chain_id}"
    for blocks, sha256 in entry.segments.items():
        if blocks in segments and segments[blocks].sha256 != sha256:
            return f"its segment {blocks} was loaded from another file"
    blocks = entry.volume.blocks
    for volume in snapshot.history() if entry.volume.kind == "history" else ():
        if volume.blocks.overlaps(blocks) and not blocks.holds(volume.blocks):
            return f"{volume.key}, which is named, has only a part of its blocks"
    return ""


def check_agreement(entries: Sequence[VolumeDescription], place: str) -> None:
    """Raise `IntegrityError` where volumes are of several chains, or of two files of a segment."""
    claims: dict[tuple[str, BlockRange], tuple[str, str]] = {}
    for entry in entries:
        key, chain, first = entry.volume.key, entry.chain_id, entries[0]
        if chain != first.chain_id:
            raise IntegrityError(
                f"{place} has volumes of several chains ({first.volume.key} of {first.chain_id}, "
                f"{key} of {chain}): move those of the wrong chain to another place, then run "
                "strata repair"
            )
        for blocks, sha256 in entry.segments.items():
            claim, other = claims.setdefault((entry.volume.kind, blocks), (sha256, key))
            if claim != sha256:
                raise IntegrityError(
                    f"{other} and {key} in {place} contradict each other: the segment {blocks} has "
                    f"the SHA-256 {claim} in one and {sha256} in the other. Move the wrong one of "
                    "these two files to another place, then run strata repair"
                )


def chosen_volumes(named_volumes: Sequence[Volume], others: Sequence[Volume]) -> list[Volume]:
    """The volumes of the next snapshot: of the named ones and of others, which are all sound."""
    volumes = [*others, *named_volumes]
    history = best_cover(volume for volume in volumes if volume.kind == "history")
    # Of two states after the same block the last one counts, which is the named one.
    states = [
        state
        for state in volumes
        if state.kind == "state"
        and (state in named_volumes or any(run.blocks.overlaps(state.blocks) for run in history))
    ]
    return [*history, *newest_states(states)]


def best_cover(volumes: Iterable[Volume]) -> list[Volume]:
    """Of volumes that may overlap, the fewest that hold the most blocks without overlap."""
    ordered = sorted(volumes, key=lambda volume: (volume.blocks.last, volume.key))
    lasts = [volume.blocks.last for volume in ordered]
    covers: list[_Cover] = [(0, 0, None)]
    for volume in ordered:
        cover = covers[bisect_left(lasts, volume.blocks.first)]
        size = volume.blocks.last - volume.blocks.first + 1
        longer = (cover[0] + size, cover[1] - 1, (volume, cover))
        covers.append(max(covers[-1], longer, key=lambda cover: cover[:2]))
    chosen: list[Volume] = []
    end = covers[-1][2]
    while end:
        chosen.append(end[0])
        end = end[1][2]
    return chosen[::-1]


_Cover = tuple[int, int, "tuple[Volume, _Cover] | None"]
"""Blocks, volumes (counted down), and the last volume with the cover that it joins."""
