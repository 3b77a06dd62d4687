"""The command `strata serve`, as the package's entry points name it."""

from __future__ import annotations

from api.serve import serve

__all__ = ["serve"]
