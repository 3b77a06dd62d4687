"""The segments of a source: found, checked and unpacked, or quarantined."""
