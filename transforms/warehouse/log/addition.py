"""How volumes are added to the warehouse, applied to whichever snapshot is the newest by then."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from transforms.errors import ConfigError
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.shapes import Volume


def with_added(newest: Snapshot, chain_id: str, volumes: Collection[Volume]) -> Snapshot:
    """A snapshot with those volumes of history whose blocks are free, and with the newest states.

    What it names already stays: where another process was faster, its volumes count. One state is
    named of each schema version. Raises `ConfigError` where the warehouse holds another chain by
    now.
    """
    if newest.chain_id not in ("", chain_id):
        raise ConfigError(
            f"the warehouse holds {newest.chain_id} and the segments are of {chain_id}: "
            "give each chain a warehouse of its own"
        )
    history = newest.history()
    for volume in volumes:
        is_free = not any(volume.blocks.overlaps(other.blocks) for other in history)
        if volume.kind == "history" and is_free:
            history.append(volume)
    states = [*(volume for volume in volumes if volume.kind == "state"), *newest.states()]
    newest_states = {
        state.version: state for state in sorted(states, key=lambda state: state.blocks)
    }
    return replace(newest, chain_id=chain_id).with_volumes([*history, *newest_states.values()])
