"""The command `strata`, as the package's scripts name it."""

from __future__ import annotations

from pipelines.cli import main

__all__ = ["main"]
