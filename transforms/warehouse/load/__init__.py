"""Loading: segments are typed, proven against their source, and stored as volumes."""
