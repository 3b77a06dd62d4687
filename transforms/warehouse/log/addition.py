"""What a load adds to the warehouse, applied to whichever snapshot is the newest by then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from transforms.errors import ConfigError
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.shapes import Volume


def with_added(
    newest: Snapshot, chain_id: str, volume: Volume | None, states: Sequence[Volume]
) -> Snapshot | None:
    """A snapshot with a volume of history, if any, and the states that were due.

    None where nothing of it is new. Raises `ConfigError` where the warehouse holds another chain by
    now.
    """
    if newest.chain_id not in ("", chain_id):
        raise ConfigError(
            f"the warehouse holds {newest.chain_id} and the segments are of {chain_id}: "
            "give each chain a warehouse of its own"
        )
    history = newest.history()
    all_states = newest_states([*newest.states(), *states])
    if volume and not any(volume.blocks.overlaps(other.blocks) for other in history):
        history.append(volume)
    # Otherwise another process loaded these segments, or only their state was lost.
    elif all_states == newest.states():
        return None
    return replace(newest, chain_id=chain_id).with_volumes([*history, *all_states])


def newest_states(states: Sequence[Volume]) -> list[Volume]:
    """Of each schema version only the newest state, ascending by block."""
    newest: dict[int, Volume] = {}
    for state in sorted(states, key=lambda state: state.blocks):
        newest[state.version] = state
    return sorted(newest.values(), key=lambda state: state.blocks)
