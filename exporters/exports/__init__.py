"""The export of one table over a range: planned, found, checked, laid out, streamed."""
