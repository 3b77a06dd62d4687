"""Putting ZIPs into the archive, replacing them on the record, and bundles."""
