"""The read API's shell. It shares `transforms` and `exporters` with `pipelines` and knows neither."""
