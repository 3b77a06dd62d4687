"""The commands of the README, taken from the page itself, so that none can be forgotten."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
_BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| (`strata .*?) \| ", re.MULTILINE)
# What is shown as it looks, and is no command.
_LAYOUT = "<archive>/"


@dataclass(frozen=True)
class Shown:
    """A command, and the lines that it prints by the page; none where it shows none."""

    command: str
    lines: tuple[str, ...] = ()


def shown_commands() -> list[list[Shown]]:
    """The commands of each fenced block: those after `$`, or, without any, all lines."""
    blocks = [block for block in _BLOCK.findall(README.read_text()) if block.strip()]
    return [list(_commands(block)) for block in blocks if not block.startswith(_LAYOUT)]


def table_commands() -> list[str]:
    """The commands of the table, in its order."""
    return [code for row in _ROW.findall(README.read_text()) for code in re.findall("`(.*?)`", row)]


def _commands(block: str) -> list[Shown]:
    if "$ " not in block:
        return [Shown(line.partition("  #")[0].strip()) for line in block.splitlines()]
    found = []
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *lines = part.splitlines()
        found.append(Shown(command, tuple(line.rstrip() for line in lines if line.strip())))
    return found
