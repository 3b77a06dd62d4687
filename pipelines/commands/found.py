"""What checks show, whichever command runs them: findings with commands, and what was read."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import click

from pipelines.commands.display import Screen
from pipelines.commands.options import two_heights
from pipelines.site.verifying import count_table, summary
from transforms.blocks import BlockRange
from transforms.errors import SegmentError
from transforms.verifying.findings import Finding
from transforms.verifying.verification import Verification

_MOST_FINDINGS = 1000
_PLACES = {
    "publish": ("warehouse", "archive"),
    "status": ("warehouse", "archive"),
    "lake": ("warehouse", "archive"),
    **dict.fromkeys(("repair", "load", "captures", "sql", "compact"), ("warehouse",)),
}
"""The places that a command of a remedy can be given."""


@dataclass(slots=True)
class Found:
    """The first findings, and how many there are."""

    first: list[Finding] = field(default_factory=list)
    count: int = 0

    def add(self, finding: Finding) -> None:
        """Keep a finding, if it is among the first."""
        self.count += 1
        if len(self.first) < _MOST_FINDINGS:
            self.first.append(finding)


def blocks_in_scope(text: str | None) -> BlockRange | None:
    """The blocks of the option `--blocks`. Raises `UsageError`."""
    if text is None:
        return None
    try:
        return BlockRange(*two_heights(text))
    except SegmentError as error:
        raise click.UsageError(f"--blocks {text}: {error}") from error


def show_findings(
    screen: Screen, check: Verification, found: Found, given: Mapping[str, str | None]
) -> None:
    """Show what was found and read; `given` are the places that the command was given."""
    findings = [(one, _commands(one, given)) for one in found.first]
    screen.table(
        "findings",
        ("problem", "where", "what", "what to do"),
        (
            (one.problem.value, one.place, one.what, "; ".join(_advice(one, commands)))
            for one, commands in findings
        ),
    )
    if found.count > len(findings):
        screen.show(f"and {found.count - len(findings):,} more findings")
    columns, rows = count_table(check.counts)
    screen.table("read", columns, rows)
    screen.show(summary(check, found.count))
    screen.document(
        {
            "findings": [
                {
                    "problem": one.problem.value,
                    "where": one.place,
                    "what": one.what,
                    "remedy": "; ".join(_advice(one, commands)),
                    "commands": list(commands),
                }
                for one, commands in findings
            ],
            "more_findings": found.count - len(findings),
            "read": {
                kind.name.lower(): {"read": c.read, "earlier": c.earlier, "expected": c.expected}
                for kind, c in check.counts.kinds.items()
            },
            "checked": str(check.scope),
            "sample": check.is_quick,
            "finished": not check.was_stopped,
        }
    )


def _advice(finding: Finding, commands: tuple[str, ...]) -> Iterator[str]:
    if commands:
        yield ", then ".join(commands)
    if finding.remedy.note:
        yield finding.remedy.note


def _commands(finding: Finding, given: Mapping[str, str | None]) -> tuple[str, ...]:
    """The commands of a remedy, with the places that this one was given."""

    def completed(text: str) -> str:
        words = text.split(" ", 2)
        if words[0] != "strata":
            return text
        places = ((name, given[name]) for name in _PLACES.get(words[1], ()))
        options = (f"--{name} {shlex.quote(place)}" for name, place in places if place)
        return " ".join([text, *options])

    return tuple(map(completed, finding.remedy.commands))
