"""Putting ZIPs into the archive, and replacing them on the record."""
