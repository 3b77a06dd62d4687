"""Commands on a site of the pipeline's tests, and what they answer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.settings import Settings
from tests.command_kit import run_strata


@dataclass(frozen=True, slots=True)
class Answer:
    """How a command ended, and what it told."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


def places(settings: Settings) -> dict[str, str]:
    """The environment that names a site."""
    return {
        "STRATA_SOURCE": settings.source,
        "STRATA_WAREHOUSE": str(settings.warehouse),
        "STRATA_ARCHIVE": settings.archive,
    }


def call(environment: Mapping[str, str], *arguments: str) -> Answer:
    """Run a command with these variables besides those that there are."""
    done = run_strata(*arguments, environment={**os.environ, **environment})
    return Answer(done.returncode, done.stdout, done.stderr)
