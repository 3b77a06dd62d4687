"""The Delta logs of the lake's tables."""
