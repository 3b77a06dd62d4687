"""Repair: the log is compared with the files that are there, and written again."""
