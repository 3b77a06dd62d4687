"""`strata verify`: read archive and warehouse again and hold them against each other."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import click

from exporters.signing.keys import read_public_key
from pipelines.commands.display import Screen
from pipelines.commands.failures import DAMAGED, OK
from pipelines.commands.options import (
    archive_option,
    json_option,
    open_site,
    two_heights,
    warehouse_option,
)
from pipelines.site.verifying import count_table, proven_before, summary, verify_site
from transforms.blocks import BlockRange
from transforms.errors import SegmentError
from transforms.verifying.findings import Finding
from transforms.verifying.verification import Scope, Verification

_MOST_FINDINGS = 1000
_PLACES = {
    "publish": ("warehouse", "archive"),
    "status": ("warehouse", "archive"),
    **dict.fromkeys(("repair", "load", "captures", "sql", "compact"), ("warehouse",)),
}
"""The places that a command of a remedy can be given."""


@dataclass(slots=True)
class _Found:
    """The first findings, and how many there are."""

    first: list[Finding] = field(default_factory=list)
    count: int = 0

    def add(self, finding: Finding) -> None:
        """Keep a finding, if it is among the first."""
        self.count += 1
        if len(self.first) < _MOST_FINDINGS:
            self.first.append(finding)


@click.command("verify", short_help="Prove hashes, CRCs, rows and index by reading everything.")
@click.option("--table", "tables", multiple=True, metavar="TABLE", help="Only this table (repeat).")
@click.option(
    "--blocks", metavar="FROM-TO", help="Only segments and ZIPs that hold any of these blocks."
)
@click.option(
    "--quick", is_flag=True, help="All documents, but only the hashes of a random sample of files."
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    help="Stop after so long; the next call goes on from there.",
)
@click.option(
    "--again", is_flag=True, help="Begin anew, whatever an interrupted call proved before."
)
@click.option(
    "--key", metavar="PUB", help="The documents must be signed by this public key: a file, or RW..."
)
@warehouse_option
@archive_option
@json_option
def command(
    tables: tuple[str, ...],
    blocks: str | None,
    quick: bool,
    minutes: float | None,
    again: bool,
    key: str | None,
    warehouse: str | None,
    archive: str | None,
    as_json: bool,
) -> int:
    """Read every byte of the archive and the warehouse and prove that all of it fits together.

    Hashes and CRCs of every ZIP, rows and text of every CSV, the index, every column of the
    warehouse's tables against what was loaded, and each against the other. It says how much was
    read of how much. A call that was interrupted is continued by the next one.

    The exit code is 5 where something is wrong, also where there is nothing to read.
    """
    screen = Screen(as_json)
    site = open_site(warehouse=warehouse, archive=archive)
    scope = Scope(tuple(sorted(set(tables))), _blocks(blocks))
    public_key = read_public_key(key) if key else None
    found = _Found()
    with screen.counts("verifying") as count, proven_before(site, scope) as proven:
        if again:
            proven.clear()
        seconds = None if minutes is None else minutes * 60
        check = Verification(scope, quick, seconds, proven, count)
        for finding in verify_site(site, check, public_key):
            found.add(finding)
    _show(screen, check, found, {"warehouse": warehouse, "archive": archive})
    return DAMAGED if found.count else OK


def _blocks(text: str | None) -> BlockRange | None:
    if text is None:
        return None
    try:
        return BlockRange(*two_heights(text))
    except SegmentError as error:
        raise click.UsageError(f"--blocks {text}: {error}") from error


def _show(
    screen: Screen, check: Verification, found: _Found, given: Mapping[str, str | None]
) -> None:
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
