"""A site in a folder of its own with the command line over it, and ways to damage it."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pipelines.commands.group import strata as commands
from pipelines.settings import Settings
from pipelines.site.site import Site
from tests.segments_kit import KIT_CHAIN


@dataclass(frozen=True)
class Place:
    """A site in a folder of its own, and the command line over it."""

    settings: Settings

    @property
    def site(self) -> Site:
        return Site(self.settings)

    @property
    def warehouse(self) -> Path:
        return Path(self.settings.warehouse)

    @property
    def archive(self) -> Path:
        return Path(self.settings.archive)

    @property
    def chain(self) -> Path:
        return self.archive / KIT_CHAIN

    def run(self, *words: str) -> tuple[int, str]:
        result = CliRunner().invoke(commands, list(words), standalone_mode=False)
        if result.exception is not None:
            raise result.exception
        return int(result.return_value or 0), result.stdout

    @property
    def lake(self) -> Path:
        return self.chain / "lake"

    def verify(self, *options: str) -> tuple[int, dict[str, Any]]:
        return self.json("verify", *options)

    def json(self, *words: str) -> tuple[int, dict[str, Any]]:
        code, out = self.run(*words, "--json")
        found: dict[str, Any] = json.loads(out)
        return code, found


def placed(settings: Settings, patch: pytest.MonkeyPatch) -> Place:
    for name in ("source", "warehouse", "archive"):
        patch.setenv(f"STRATA_{name.upper()}", str(getattr(settings, name)))
    patch.setenv("STRATA_LAKE", str(int(settings.lake)))
    return Place(settings)


def flip(path: Path, at: int | None = None) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 4
    path.unlink()  # a file of the lake may be the warehouse's, too
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(b"")


def one(folder: Path, pattern: str) -> Path:
    return sorted(folder.glob(pattern))[0]


def mended(place: Place, path: Path, *command: str) -> list[dict[str, Any]]:
    """See a damage found, follow the remedies as commands, and see it gone.

    Returns what was found at first.
    """
    words = command or ("verify",)
    code, said = place.json(*words)
    assert code == 5
    findings: list[dict[str, Any]] = said["findings"]
    assert any(str(path) in row["where"] for row in findings), findings
    for _ in range(2):  # what is damaged may hide what follows from it
        follow(place, said)
        code, said = place.json(*words)
        if code == 0:
            return findings
    pytest.fail(f"still: {said['findings']}")


def remedied(place: Place, *command: str) -> list[dict[str, Any]]:
    """The findings of a check that finds some; what they advise was done, and not looked at yet.

    The next check does that, so that many damages after each other take one check each.
    """
    code, said = place.json(*(command or ("verify",)))
    assert code == 5
    follow(place, said)
    findings: list[dict[str, Any]] = said["findings"]
    return findings


def follow(place: Place, said: dict[str, Any]) -> None:
    """Do what findings advise."""
    for advice in advised(said):
        if advice[0] == "strata":
            place.run(*advice[1:])
        else:
            subprocess.run(advice, check=True)


def advised(said: dict[str, Any]) -> Iterator[list[str]]:
    """The commands that the findings name, each once: what moves files away comes first."""
    seen: list[str] = []
    for row in said["findings"]:
        assert row["commands"], row
        seen += [text for text in row["commands"] if text not in seen]
    yield from sorted(map(shlex.split, seen), key=lambda words: words[0] == "strata")
