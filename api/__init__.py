"""The shell of the read API. It never imports `pipelines`, nor the other way round."""
