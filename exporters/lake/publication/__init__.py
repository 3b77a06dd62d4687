"""Putting loaded segments into the lake, and keeping it tidy."""
