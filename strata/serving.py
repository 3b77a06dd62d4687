"""The command `strata serve`, where `strata` looks for it."""

from __future__ import annotations

from api.serve import serve as command

__all__ = ["command"]
