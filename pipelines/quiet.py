"""The configuration of runs that say nothing on stderr: `pipelines.run_log` has a line of each.

Dagster keeps every event of a run in its own log; here they would be hundreds of lines a run.
"""

from __future__ import annotations

from typing import Any

QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
