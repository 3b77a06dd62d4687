"""A copy of a whole archive, the lake included."""
