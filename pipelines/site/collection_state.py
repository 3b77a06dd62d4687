"""What waits at the data node, for whoever shows how the site is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipelines.site.site import Site
from transforms.errors import ConfigError, NodeError

_STATUS_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class CollectionState:
    """Figures of what waits at the data node, by name; or the reason why there are none."""

    figures: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""


def collection_state(site: Site) -> CollectionState:
    """What waits at the data node, and how many blocks are left until the oldest is dropped.

    No figures where no node is set, and no `collect_blocks_left` where nothing waits.
    """
    if not site.settings.node:
        return CollectionState()
    # Python's clients of HTTP take their time to import, which whoever has no node need not pay.
    from pipelines.site.collecting import Collector

    try:
        waiting = Collector(site).backlog(_STATUS_SECONDS)
    except (ConnectionError, NodeError, ConfigError) as error:
        return CollectionState(problem=str(error))
    left = waiting.blocks_left
    figures = {"segments_to_collect": len(waiting.segments)}
    return CollectionState(figures if left is None else {**figures, "collect_blocks_left": left})
