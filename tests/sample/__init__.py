"""The embedded sample history: a small market that anyone can load without a network."""

from tests.sample.write import SEGMENTS, SampleSegment, write_sample

__all__ = ["SEGMENTS", "SampleSegment", "write_sample"]
