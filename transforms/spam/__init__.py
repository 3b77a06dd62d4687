"""Spam captures: what core nodes said of parties, from files of the source."""
