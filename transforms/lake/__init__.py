"""Files of the lake: Parquet written from volumes, proven to render to the CSVs, described."""
