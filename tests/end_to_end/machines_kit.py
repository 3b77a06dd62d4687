"""Machines that share a bucket: each is a folder with a cache and a Dagster home of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.command_kit import run_strata
from tests.s3_kit import BucketServer


@dataclass(frozen=True)
class Machine:
    """One machine, and the variables that name what it shares with others."""

    folder: Path
    places: Mapping[str, str]

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def environment(self) -> dict[str, str]:
        own = {"STRATA_CACHE": str(self.cache), "DAGSTER_HOME": str(self.folder / "dagster_home")}
        return {**os.environ, **own, **self.places}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command, whatever becomes of it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return run_strata(*arguments, environment=self.environment, folder=self.folder)

    def strata(self, *arguments: str) -> str:
        """Run a command that must do what is asked; returns what it prints."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def json(self, *arguments: str) -> Any:
        """The document that a command prints."""
        return json.loads(self.strata(*arguments, "--json"))

    def export(self, table: str, first: int, last: int) -> bytes:
        """The ZIP of a range."""
        out = self.folder / "out"
        self.strata("export", table, str(first), str(last), "--out", str(out))
        return next(out.glob(f"*-{table}-{first}-{last}.zip")).read_bytes()


def objects(server: BucketServer, bucket: str) -> dict[str, bytes]:
    """Everything in a bucket."""
    found = server.client.list_objects_v2(Bucket=bucket).get("Contents", [])
    keys = [item["Key"] for item in found]
    return {key: server.client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}
