"""Kubernetes' manifests, held against the schemas of its API by `kubernetes-validate`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

RELEASES = ("1.34", "1.35", "1.36", "1.37")
"""The last four; what is older gets no corrections any more."""

PACKAGES = Path(__file__).resolve().parents[2] / ".venv" / "kubernetes"
_PASSED = re.compile(r"^INFO .* passed for resource ", re.M)


def check_manifests(*files: Path) -> None:
    """Fail unless each release knows each object in these files, to the field."""
    if not (PACKAGES / "kubernetes_validate").exists():
        pytest.fail(f"{PACKAGES} lacks kubernetes-validate: run `make servers`")
    count = sum(document is not None for file in files for document in documents(file))
    for release in RELEASES:
        done = subprocess.run(
            [sys.executable, "-m", "kubernetes_validate", "-k", release, "--strict", *files],
            env={**os.environ, "PYTHONPATH": str(PACKAGES)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count(f" against version {release}\n") == count, done.stdout
        assert len(_PASSED.findall(done.stdout)) == count, done.stdout


def documents(file: Path) -> list[dict[str, object]]:
    """The objects in a file."""
    return [one for one in yaml.safe_load_all(file.read_text()) if one]
