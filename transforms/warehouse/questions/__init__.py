"""Questions to a warehouse: queries, ranges of blocks and times, and copies to take home."""
