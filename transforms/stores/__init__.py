"""Where objects live: one protocol over a folder or a bucket prefix."""
