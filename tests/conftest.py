"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# How long one example takes says more about the machine and its other work than about the code.
settings.register_profile("strata", deadline=None)
settings.load_profile("strata")
