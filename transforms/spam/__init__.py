"""Spam captures: parties' spam counters as core nodes report them, from files of the source."""
