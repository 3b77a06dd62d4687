"""Puts the pieces together for Dagster."""

import warnings

import dagster as dg

from pipelines import jobs
from pipelines.assets.publications import exports_asset, index, lake_asset
from pipelines.assets.warehouse_assets import current_state, history_asset
from pipelines.discovery import segment_sensor
from pipelines.machine_name import machine_tags
from pipelines.schedules import schedules
from pipelines.settings import Settings
from pipelines.site.site import Site


def definitions(settings: Settings) -> dg.Definitions:
    """Everything, for one set of settings."""
    with warnings.catch_warnings(action="ignore", category=dg.BetaWarning):
        policy = dg.BackfillPolicy.multi_run(max_partitions_per_run=settings.batch)
        of_segments = [history_asset(policy), exports_asset(policy)]
        if settings.lake:
            of_segments.append(lake_asset(policy))

    def open_site(context: dg.InitResourceContext) -> Site:
        """A site of its own for each run and each look, which gets the name of its machine."""
        if context.run is not None and context.instance is not None:
            context.instance.add_run_tags(context.run.run_id, machine_tags())
        return Site(settings)

    return dg.Definitions(
        assets=[*of_segments, current_state, index],
        jobs=jobs.ALL,
        sensors=[segment_sensor(jobs.load_and_publish.name, settings)],
        schedules=schedules(),
        resources={"site": dg.ResourceDefinition(open_site)},
        # A run is one process: its steps are short, and a process for each would cost more than
        # they do. Work spreads over processes and machines by runs.
        executor=dg.in_process_executor,
    )
