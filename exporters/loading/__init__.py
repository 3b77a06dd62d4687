"""A warehouse from an archive."""
