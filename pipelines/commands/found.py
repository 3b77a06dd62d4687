"""What checks show, whichever command runs them: findings with commands, and what was read."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pipelines.commands.display import Screen
from pipelines.site.site_check import count_table, summary
from transforms.verifying.findings import Finding
from transforms.verifying.verification import Verification

_MOST_FINDINGS = 1000
_PLACES = {
    "publish": ("warehouse", "archive"),
    "status": ("warehouse", "archive"),
    **dict.fromkeys(("repair", "load", "sql", "compact"), ("warehouse",)),
}
"""The places that a command of a remedy can be given."""


@dataclass(slots=True)
class FindingList:
    """The first findings, and how many there are."""

    first: list[Finding] = field(default_factory=list)
    count: int = 0

    def add(self, finding: Finding) -> None:
        """Keep a finding, if it is among the first."""
        self.count += 1
        if len(self.first) < _MOST_FINDINGS:
            self.first.append(finding)


def show_findings(
    screen: Screen, check: Verification, tally: FindingList, locations: Mapping[str, str | None]
) -> None:
    """Show what was found and read; `locations` are the places that the command was given."""
    findings = [(finding, _commands(finding, locations)) for finding in tally.first]
    facts = [_facts(finding, commands) for finding, commands in findings]
    shown = ((fact["problem"], fact["where"], fact["what"], fact["remedy"]) for fact in facts)
    screen.table("findings", ("problem", "where", "what", "what to do"), shown)
    if tally.count > len(findings):
        screen.show(f"and {tally.count - len(findings):,} more findings")
    columns, rows = count_table(check.counts)
    screen.table("read", columns, rows)
    screen.show(summary(check, tally.count))
    screen.document(
        {
            "findings": facts,
            "more_findings": tally.count - len(findings),
            "read": {
                kind.name.lower(): {"read": c.read, "expected": c.expected}
                for kind, c in check.counts.kinds.items()
            },
            "sample": check.is_quick,
            "unchanged": {"shards": len(check.sound.unchanged), "of": check.sound.total},
            "finished": not check.was_stopped,
        }
    )


def _facts(finding: Finding, commands: tuple[str, ...]) -> dict[str, object]:
    return {
        "problem": finding.problem.value,
        "where": finding.place,
        "what": finding.what,
        "remedy": "; ".join(_advice(finding, commands)),
        "commands": list(commands),
    }


def _advice(finding: Finding, commands: tuple[str, ...]) -> Iterator[str]:
    if commands:
        yield ", then ".join(commands)
    if finding.remedy.note:
        yield finding.remedy.note


def _commands(finding: Finding, locations: Mapping[str, str | None]) -> tuple[str, ...]:
    """The commands of a remedy, with the places that this one was given."""

    def completed(text: str) -> str:
        words = text.split(" ", 2)
        if words[0] != "strata":
            return text
        places = ((name, locations[name]) for name in _PLACES.get(words[1], ()))
        options = (f"--{name} {shlex.quote(place)}" for name, place in places if place)
        return " ".join([text, *options])

    return tuple(map(completed, finding.remedy.commands))
