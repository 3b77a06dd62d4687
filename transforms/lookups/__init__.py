"""What volumes hold for the look-ups of the read API, beside their tables."""
