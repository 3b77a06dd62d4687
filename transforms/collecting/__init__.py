"""Segments out of data nodes: their lists, copies of files, what a source lacks."""
