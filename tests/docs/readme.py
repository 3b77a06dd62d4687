"""The commands of the README and of operations, taken from the pages, so that none is forgotten."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
OPERATIONS = ROOT / "docs" / "operations.md"
_BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| (`strata .*?) \| ", re.MULTILINE)


@dataclass(frozen=True)
class Shown:
    """A command, and the lines that it prints by the page; none where it shows none."""

    command: str
    lines: tuple[str, ...] = ()


def shown_commands() -> list[list[Shown]]:
    """The commands of each fenced block: those after `$`, or, without any, all lines."""
    return [list(_commands(block)) for block in _BLOCK.findall(README.read_text())]


def table_commands() -> list[str]:
    """The commands of the table in operations, in its order."""
    rows = _ROW.findall(OPERATIONS.read_text())
    return [code for row in rows for code in re.findall("`(.*?)`", row)]


def _commands(block: str) -> list[Shown]:
    if "$ " not in block:
        return [Shown(line.partition("  #")[0].strip()) for line in block.splitlines()]
    found = []
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *lines = part.splitlines()
        found.append(Shown(command, tuple(line.rstrip() for line in lines if line.strip())))
    return found
