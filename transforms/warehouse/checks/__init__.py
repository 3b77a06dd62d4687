"""Checks of a warehouse, its log and every file that it names, and the repair of its log."""
