"""The Dagster shell and the command line over `transforms` and `exporters`."""
