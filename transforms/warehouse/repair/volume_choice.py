"""Which of several volumes are the warehouse, where they overlap and no snapshot says it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence

from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.warehouse.log.addition import newest_states
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.repair.volume_description import FoundVolume


def check_agreement(entries: Sequence[FoundVolume], place: str) -> None:
    """Raise `IntegrityError` where two volumes say that different files are the same segment."""
    claims: dict[tuple[str, BlockRange], tuple[str, FoundVolume]] = {}
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


def chosen_volumes(named_volumes: Sequence[Volume], entries: Sequence[FoundVolume]) -> list[Volume]:
    """The volumes of the next snapshot: of the named ones and those that were found."""
    volumes = [*named_volumes, *(item.volume for item in entries)]
    keys = {volume.key for volume in named_volumes}
    history = best_cover((item for item in volumes if item.kind == "history"), keys)
    states = [
        state
        for state in volumes
        if state.kind == "state"
        and (state.key in keys or any(item.blocks.overlaps(state.blocks) for item in history))
    ]
    by_origin = {item.volume.key: item.origin.snapshot for item in entries}
    states.sort(key=lambda state: (state.key in keys, by_origin.get(state.key, 0)))
    return [*history, *newest_states(states)]


def best_cover(volumes: Iterable[Volume], named_keys: Collection[str] = ()) -> list[Volume]:
    """Of volumes that may overlap those that hold the most blocks without overlap, ascending.

    Where that leaves a choice: as many blocks as can be in those of `named_keys`, then as few
    volumes as can be.
    """
    ordered = sorted(volumes, key=lambda volume: (volume.blocks.last, volume.key))
    lasts = [volume.blocks.last for volume in ordered]
    scores = [(0, 0, 0)]
    previous: list[int | None] = [None]  # by number of volumes looked at: what the taken one joins
    for volume in ordered:
        before = bisect_left(lasts, volume.blocks.first)
        size = volume.blocks.last - volume.blocks.first + 1
        blocks, old, count = scores[before]
        score = (blocks + size, old + (size if volume.key in named_keys else 0), count - 1)
        previous.append(before if score > scores[-1] else None)
        scores.append(max(score, scores[-1]))
    chosen: list[Volume] = []
    place = len(ordered)
    while place:
        joined = previous[place]
        if joined is None:
            place -= 1
        else:
            chosen.append(ordered[place - 1])
            place = joined
    return chosen[::-1]
