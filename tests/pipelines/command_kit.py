"""The command line, called in this process: starting one takes longer than most commands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any

import pytest

from pipelines.cli import main
from pipelines.settings import Settings


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
    """Call a command with these variables besides those that there are."""
    stdout, stderr = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        with (
            redirect_stdout(stdout),
            redirect_stderr(stderr),
            pytest.raises(SystemExit) as left,
        ):
            main(list(arguments))
    assert isinstance(left.value.code, int)
    return Answer(left.value.code, stdout.getvalue(), stderr.getvalue())
