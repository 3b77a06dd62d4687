"""The lake: the published tables as Delta tables of exact Parquet, beside the ZIPs."""
