"""`defs` is what `dagster dev` and the daemon load, by the settings of the environment."""

from exporters.locations import read_locations
from pipelines.assembly import definitions
from pipelines.settings import Settings

defs = definitions(read_locations(Settings))
