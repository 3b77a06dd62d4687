"""What `tests.benchmarks.scale` measures, a row each: whoever adds a row adds it to `ROWS`.

Each is done in a fresh process, on a copy of the site that is its own, and may be prepared by
another process that is not measured. Both get the place and must be functions of a module.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from exporters.locations import Locations
from pipelines.commands.group import strata
from pipelines.discovery import segment_sensor
from pipelines.instance import add_partitions, open_instance
from pipelines.jobs import load_and_publish
from pipelines.site.publishing import publish_segments
from pipelines.site.site import Site
from tests.benchmarks import scale_api
from tests.benchmarks.scale_site import Place
from transforms.warehouse.merge import merge_plan
from transforms.warehouse.warehouse_address import open_warehouse

Work = Callable[[Place], object]


def nothing(_place: Place) -> None:
    """No preparation."""


@dataclass(frozen=True, slots=True)
class Row:
    """What is measured, how, and what must have happened before."""

    what: str
    work: Work
    prepare: Work = nothing


def keep_clones() -> None:
    """Let nothing be merged: the receipts of clones are not those of their rows."""
    merge_plan.FULL_BYTES = 1


def command(settings: Locations, name: str, *arguments: str) -> None:
    """Run a command of `strata` on these places, its output thrown away."""
    keep_clones()
    for field in ("source", "warehouse", "archive"):
        os.environ[f"STRATA_{field.upper()}"] = str(getattr(settings, field))
    os.environ["STRATA_LAKE"] = "0"
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        code = strata.main([name, *arguments], prog_name="strata", standalone_mode=False)
    assert not code, f"strata {name} ended with {code}"


def status(place: Place) -> None:
    """Show how far each segment has come, as JSON."""
    command(place.settings, "status", "--json")


def load_one(place: Place) -> None:
    """Load one segment."""
    command(place.with_one_new, "load")


def load_all(place: Place) -> None:
    """Load all new segments."""
    command(place.settings, "load")


def run(place: Place) -> None:
    """Load and publish all new segments through Dagster."""
    os.environ["DAGSTER_HOME"] = str(place.home)
    command(place.settings, "run")


def partitions(place: Place) -> None:
    """Let Dagster know what is loaded, as it does of a history that it loaded."""
    catalog = open_warehouse(place.settings.warehouse).loaded_catalog()
    with open_instance(place.home) as instance:
        add_partitions(instance, catalog.blocks)


def publish_one(place: Place) -> None:
    """Publish one segment that is loaded and waits."""
    report = publish_segments(Site(place.settings), place.new[:1]).report
    assert (report.created, report.failed) == (15, ()), report


def show(place: Place) -> None:
    """Make `current.duckdb`."""
    open_warehouse(place.settings.warehouse).show()


def one_volume_less(place: Place) -> None:
    """Make `current.duckdb`, then a snapshot that it does not show."""
    keep_clones()
    warehouse = open_warehouse(place.settings.warehouse)
    warehouse.show()
    hidden = warehouse.loaded_catalog().snapshot.history[-1]
    warehouse.backing.log.commit(
        lambda newest: newest.with_volumes(one for one in newest.volumes if one != hidden)
    )


def look(place: Place) -> None:
    """Let the sensor look once, and do what the daemon does with its answer."""
    settings, cursor = place.with_one_new, place.folder / "cursor"
    sensor = segment_sensor(load_and_publish.name, settings)
    with (
        open_instance(place.home) as instance,
        dg.build_sensor_context(
            instance=instance,
            cursor=cursor.read_text() if cursor.exists() else None,
            resources={"site": Site(settings)},
        ) as context,
    ):
        result = sensor(context)
        assert isinstance(result, dg.SensorResult)
        assert len(result.run_requests or ()) == 1, result
        for asked in result.dynamic_partitions_requests or ():
            instance.add_dynamic_partitions(asked.partitions_def_name, list(asked.partition_keys))
        cursor.write_text(result.cursor or "")


def without_views(place: Place) -> None:
    """Remove `current.duckdb`."""
    (Path(place.settings.warehouse) / "current.duckdb").unlink(missing_ok=True)


ROWS = (
    Row("`strata status --json`", status),
    Row("`strata load` of one segment", load_one),
    Row("`strata load` of 100 segments", load_all),
    Row("publishing one segment", publish_one, prepare=load_one),
    Row("`strata run` of 100 segments", run, prepare=partitions),
    Row("a look of the sensor, one segment being new", look, prepare=look),
    Row("`current.duckdb`, made from nothing", show, prepare=without_views),
    Row("`current.duckdb` of the next snapshot", show, prepare=one_volume_less),
    Row("the read API: first start of a machine", scale_api.start),
    Row("the read API: start of a process", scale_api.start, prepare=scale_api.start),
    Row(
        f"the read API: start, {scale_api.REFRESHES} times one more volume",
        scale_api.refresh,
        prepare=scale_api.hide_volumes,
    ),
)
