"""One warehouse for all machines under one Dagster: a run that finds another one must not go on.

Each machine has its own settings, and a run may start on any of them. With a warehouse for each,
every run would be green and the history split between them.
"""

from __future__ import annotations

import socket

import dagster as dg

from pipelines.assets.keys import CURRENT_STATE
from pipelines.partitions import RunContext
from pipelines.site.site import Site

WAREHOUSE_TAG = "strata/warehouse"
"""The id of the warehouse that a run is for; the sensor and `strata run` give it to their runs."""
PLACE_TAG = "strata/warehouse_place"
"""Where who asked for the run has this warehouse."""


def warehouse_tags(site: Site) -> dict[str, str]:
    """The tags of a run for this very warehouse, which is begun where there is none."""
    return {WAREHOUSE_TAG: site.warehouse.begin().warehouse, PLACE_TAG: _place(site)}


def warehouse_metadata(site: Site) -> dict[str, str]:
    """What a materialization says of the warehouse it is about, for runs without tags."""
    snapshot = site.warehouse.snapshot()
    return {"warehouse": snapshot.warehouse if snapshot else "", "warehouse_place": _place(site)}


def check_warehouse(context: RunContext, site: Site) -> None:
    """Fail the step where the run is for another warehouse than this machine's.

    A run without the tags, started by hand, is for the one that was materialized last, if any was.
    """
    target, place = _of_tags(context) or _of_last_materialization(context) or ("", "")
    snapshot = site.warehouse.snapshot()
    warehouse = snapshot.warehouse if snapshot else ""
    if target and target != warehouse:
        here = f"the warehouse {warehouse}" if warehouse else "nothing"
        raise dg.Failure(
            f"this run is for the warehouse {target} at {place}, and it runs where {_place(site)} "
            f"holds {here}: nothing was changed. Let STRATA_WAREHOUSE name one place on all "
            "machines that run this Dagster's jobs. If the other warehouse was given up, strata "
            "run, or the sensor new_segments, goes on with the one it finds",
            allow_retries=False,
        )


def _of_tags(context: RunContext) -> tuple[str, str] | None:
    tags = context.run.tags
    return (tags[WAREHOUSE_TAG], tags.get(PLACE_TAG, "")) if WAREHOUSE_TAG in tags else None


def _of_last_materialization(context: RunContext) -> tuple[str, str] | None:
    event = context.instance.get_latest_materialization_event(CURRENT_STATE)
    if event is None or event.asset_materialization is None:
        return None
    metadata = event.asset_materialization.metadata
    return (
        (str(metadata["warehouse"].value), str(metadata["warehouse_place"].value))
        if "warehouse" in metadata and "warehouse_place" in metadata
        else None
    )


def _place(site: Site) -> str:
    place = site.warehouse.describe()
    return f"{place} on {socket.gethostname()}" if site.warehouse.in_folder else place
