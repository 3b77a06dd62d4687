"""What is measured of a site for Prometheus: each name once, with its meaning. Pure values.

The server's `/metrics` and the pipeline's text file take names, meanings and figures from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from transforms.warehouse.survey import Survey


@dataclass(frozen=True, slots=True)
class Measure:
    """A gauge `strata_<name>`; `label` names what it is told apart by (empty: nothing)."""

    name: str
    meaning: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """One value of a measure; `case` is the value of its label."""

    measure: Measure
    value: float
    case: str = ""


SNAPSHOT = Measure("snapshot", "Snapshot of the warehouse that is served.")
LOOK = Measure("look_success", "Whether the last look at the source succeeded (1, 0).")
HEIGHT = Measure("block_height", "The newest loaded block.")
TIME = Measure("block_timestamp_seconds", "When the newest loaded block was made, in Unix seconds.")
BEHIND = Measure("blocks_behind", "Blocks that the source shows and the warehouse lacks.")
GAPS = Measure("gaps", "Runs of blocks that lack between those that are loaded.")
QUARANTINED = Measure("quarantined_files", "Files of the source that cannot be used.")
LOST = Measure("lost_files", "Files of the warehouse that are lost or damaged.")
WAITING = Measure("waiting_segments", "Segments that wait to be loaded or published.", "step")
LAST_LOOK = Measure(
    "last_look_timestamp_seconds",
    "When Dagster's sensor or strata run last looked what is to do, in Unix seconds.",
)
LAST_FAILED = Measure("last_run_failed", "Whether a job's last run failed (1, 0).", "job")
DISK_FREE = Measure("disk_free_bytes", "What a place's file system has left.", "place")
DISK_SIZE = Measure("disk_size_bytes", "What a place's file system takes altogether.", "place")

SERVED = (SNAPSHOT, LOOK, HEIGHT, TIME, BEHIND, GAPS, QUARANTINED, LOST, WAITING)
"""What a server tells of its site."""


def survey_figures(survey: Survey) -> Iterator[Figure]:
    """What a source held against the warehouse amounts to."""
    yield Figure(BEHIND, survey.blocks_behind)
    yield Figure(GAPS, len(survey.gaps))
    yield Figure(QUARANTINED, len(survey.refused))
    yield Figure(WAITING, len(survey.pending), "load")
