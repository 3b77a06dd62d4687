"""The steps over one chain's source, warehouse and archive. Nothing here knows Dagster."""
