"""What a load adds to the warehouse, applied to whichever snapshot is the newest by then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from transforms.errors import ConfigError
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.shapes import Volume


@dataclass(frozen=True, slots=True)
class Addition:
    """A volume of history, if any, with the states that were due, to be added to a snapshot."""

    chain_id: str
    volume: Volume | None
    states: tuple[Volume, ...]

    def applied(self, newest: Snapshot) -> Snapshot | None:
        """The snapshot with them; None where nothing of it is new.

        Raises `ConfigError` where the warehouse holds another chain by now.
        """
        if newest.chain_id not in ("", self.chain_id):
            raise ConfigError(
                f"the warehouse holds {newest.chain_id} and the segments are of {self.chain_id}: "
                "give each chain a warehouse of its own"
            )
        history = newest.history()
        states = newest_states([*newest.states(), *self.states])
        added = self.volume
        if added and not any(volume.blocks.overlaps(added.blocks) for volume in history):
            history.append(added)
        # Otherwise another process loaded these segments, or only their state was lost.
        elif states == newest.states():
            return None
        return replace(newest, chain_id=self.chain_id).with_volumes([*history, *states])


def newest_states(states: Sequence[Volume]) -> list[Volume]:
    """Of each schema version only the newest state, ascending by block."""
    newest: dict[int, Volume] = {}
    for state in sorted(states, key=lambda state: state.blocks):
        newest[state.version] = state
    return sorted(newest.values(), key=lambda state: state.blocks)
