"""What checks show: findings with commands, and what was read."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from pipelines.commands.display import Screen
from pipelines.commands.failures import DAMAGED, OK
from pipelines.site.site_check import count_rows, summary
from transforms.verifying.findings import Finding, Remedy, foreign_sentence
from transforms.verifying.verification import Kind, Verification
from transforms.warehouse.files.catalog import Catalog

_WAREHOUSE = ("warehouse",)
_PLACES = {"publish": (*_WAREHOUSE, "archive"), "repair": _WAREHOUSE, "load": _WAREHOUSE}
"""The places that a command of a remedy can be given."""


def show_findings(
    screen: Screen,
    check: Verification,
    findings: Sequence[Finding],
    number: int,
    locations: Mapping[str, str | None],
) -> None:
    """Show the first of so many findings, and what was read.

    `locations` are the places that the command was given.
    """
    remedies = [_completed(finding.remedy, locations) for finding in findings]
    facts = [
        {
            "problem": finding.problem.value,
            "where": finding.place,
            "what": finding.what,
            "remedy": str(remedy),
            "commands": list(remedy.commands),
        }
        for finding, remedy in zip(findings, remedies, strict=True)
    ]
    shown = ((fact["problem"], fact["where"], fact["what"], fact["remedy"]) for fact in facts)
    screen.table("findings", ("problem", "where", "what", "what to do"), shown)
    if number > len(findings):
        screen.show(f"and {number - len(findings):,} more findings")
    screen.table("read", ("what", "read", "of"), count_rows(check))
    if check.foreign_rows:
        screen.show(foreign_sentence(check.foreign_rows))
    screen.show(summary(check, number))
    screen.document(
        {
            "findings": facts,
            "foreign_rows": check.foreign_rows,
            "more_findings": number - len(findings),
            "read": {
                kind.name.lower(): {"read": check.read[kind], "expected": check.there[kind]}
                for kind in Kind
            },
            "quick": check.is_quick,
            "last_whole_check": check.whole or None,
        }
    )


def show_lost(screen: Screen, catalog: Catalog) -> int:
    """Warn of rows that were loaded and are lost; the exit code that this gives."""
    if catalog.lost_rows:
        screen.message(f"warning: rows are missing: {catalog.lost_rows}")
    return DAMAGED if catalog.lost_rows else OK


def _completed(remedy: Remedy, locations: Mapping[str, str | None]) -> Remedy:
    """A remedy whose commands have the places that this one was given."""

    def completed(text: str) -> str:
        words = text.split(" ", 2)
        names = _PLACES.get(words[1], ()) if words[0] == "strata" else ()
        places = ((name, locations[name]) for name in names)
        options = (f"--{name} {shlex.quote(place)}" for name, place in places if place)
        return " ".join([text, *options])

    return Remedy(tuple(map(completed, remedy.commands)), remedy.note)
