"""The catalog: `current.duckdb`, a file of views over the data files of a snapshot."""
