"""Which volumes are the warehouse: of those that a snapshot names, and those that it does not."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo
from transforms.warehouse.log.addition import newest_states
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.receipts import LoadedSegment
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.repair.older_log import volume_blocks
from transforms.warehouse.repair.volume_description import VolumeDescription


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


def newer_states(infos: Iterable[ObjectInfo], states: Sequence[Volume]) -> Iterator[ObjectInfo]:
    """The listed states that are later than these."""
    for info in infos:
        blocks = volume_blocks(info.key)
        if info.key.startswith("state/") and all(blocks and s.blocks < blocks for s in states):
            yield info


def check_agreement(entries: Sequence[VolumeDescription], place: str) -> None:
    """Raise `IntegrityError` where two volumes say that different files are the same segment."""
    claims: dict[tuple[str, BlockRange], tuple[str, VolumeDescription]] = {}
    for entry in entries:
        for blocks, sha256 in entry.segments.items():
            digest, other = claims.setdefault((entry.volume.kind, blocks), (sha256, entry))
            if digest != sha256 or other.chain_id != entry.chain_id:
                raise IntegrityError(
                    f"{other.volume.key} and {entry.volume.key} in {place} contradict each other: "
                    f"the segment {blocks} of {other.chain_id} with SHA-256 {digest}, and of "
                    f"{entry.chain_id} with {sha256}. Move the wrong one of these two files to "
                    "another place, then run strata repair"
                )
    chains = {entry.chain_id: entry.volume.key for entry in entries}
    if len(chains) > 1:
        listed = ", ".join(f"{key} of {chain}" for chain, key in sorted(chains.items()))
        raise IntegrityError(
            f"{place} has volumes of several chains ({listed}): move those of the wrong chain to "
            "another place, then run strata repair"
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
