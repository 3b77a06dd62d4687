"""One warehouse for all machines under one Dagster: a run that finds another one must not go on.

Each machine has its own settings, and a run may start on any of them. With a warehouse for each,
every run would be green and the history split between them.
"""

from __future__ import annotations

import socket

import dagster as dg

from pipelines.partitions import RunContext
from pipelines.site.site import Site

WAREHOUSE_TAG = "strata/warehouse"
"""The id of the warehouse that a run is for; the sensor and `strata run` give it to their runs."""
PLACE_TAG = "strata/warehouse_place"
"""Where who asked for the run has this warehouse."""


def warehouse_tags(site: Site) -> dict[str, str]:
    """The tags of a run for this very warehouse, which is begun where there is none."""
    return {WAREHOUSE_TAG: site.warehouse.begin().warehouse, PLACE_TAG: _place(site)}


def check_warehouse(context: RunContext, site: Site) -> None:
    """Fail the step where the run is for another warehouse than this machine's.

    A run without the tags, started by hand, is for the one that it finds.
    """
    tags = context.run.tags
    target, place = tags.get(WAREHOUSE_TAG, ""), tags.get(PLACE_TAG, "")
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


def _place(site: Site) -> str:
    place = site.warehouse.describe()
    return f"{place} on {socket.gethostname()}" if site.warehouse.in_folder else place
