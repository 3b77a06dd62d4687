"""The command `strata`, as the package's scripts name it."""

from __future__ import annotations

import sys
from pathlib import Path

if not Path(__file__).with_name("pipelines").is_dir():
    # An editable installation comes last, after packages of the same names on PYTHONPATH.
    sys.path.insert(0, str(Path(__file__).parents[1]))

from pipelines.cli import main

__all__ = ["main"]
