"""Exports and the archive: names, ZIPs and parts, stores, splicing, publishing, verifying."""
