"""What became of a try, and the table of all of them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.faults.children import Ended

DAMAGED = 5
"""The exit code of findings, which stand in what a command prints."""

_VARYING = {"seconds", "run_id", "volume", "last_whole_check"}


@dataclass(frozen=True, slots=True)
class Result:
    """A try: its campaign and number, what was done to what, how it ended, what did not hold.

    `count` is how many damaged things it was about.
    """

    campaign: str
    number: int
    scenario: str
    what: str
    ending: str
    failures: list[str] = field(default_factory=list)
    output: str = ""
    count: int = 1

    def dump(self) -> str:
        """On one line, for another process."""
        return json.dumps(asdict(self))


def ending_of(ended: Ended) -> str:
    """How a child ended, in two words."""
    if ended.hung:
        return "hangs"
    return f"exit {ended.code}" if ended.code >= 0 else f"signal {-ended.code}"


def of_ending(
    ended: Ended, codes: Collection[int], *, told_in_output: Collection[int] = (DAMAGED,)
) -> list[str]:
    """What is wrong with how a command ended: these are the codes that it may have.

    With the codes `told_in_output` the reason may stand in what it prints, else on stderr.
    """
    problems = []
    if ended.hung:
        problems.append("it hangs")
    elif ended.code not in codes:
        problems.append(f"it ended with {ending_of(ended)}")
    if "Traceback" in ended.err or "Traceback" in ended.out:
        problems.append("it printed a traceback")
    told = ended.err + (ended.out if ended.code in told_in_output else "")
    if ended.code > 0 and not any(": " in line for line in told.splitlines()):
        problems.append("it said nothing")
    return problems


def said(out: str) -> Any:
    """The JSON document that a command printed, without what varies."""
    try:
        return _settled(json.loads(out))
    except ValueError:
        return f"no JSON: {out[-300:]}"


def _settled(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: _settled(value) for name, value in found.items() if name not in _VARYING}
    return [_settled(one) for one in found] if isinstance(found, list) else found


def parse_result(line: str) -> Result:
    """Read a result back."""
    return Result(**json.loads(line))


def table(results: Iterable[Result]) -> str:
    """What was tried, how often, how it ended, and what did not hold."""
    rows: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    failed: Counter[tuple[str, str]] = Counter()
    counts: Counter[tuple[str, str]] = Counter()
    for result in results:
        key = (result.campaign, result.scenario)
        rows[key][result.ending] += 1
        failed[key] += bool(result.failures)
        counts[key] += result.count
    lines = [("what", "where", "tries", "failures", "how they ended")]
    for key, endings in sorted(rows.items()):
        ended = ", ".join(f"{ending}: {count}" for ending, count in sorted(endings.items()))
        lines.append((*key, f"{counts[key]:,}", str(failed[key]), ended))
    widths = [max(len(line[at]) for line in lines) for at in range(4)]
    return "\n".join(
        "  ".join(
            (*(text.ljust(width) for text, width in zip(line, widths, strict=False)), line[4])
        )
        for line in lines
    )


def report(result: Result, reproduce: str) -> str:
    """A failure, for a person."""
    failures = "\n".join(f"  - {failure}" for failure in result.failures)
    return (
        f"{result.campaign} {result.number}, {result.scenario}: {result.what}: {result.ending}\n"
        f"{failures}\n  again: {reproduce}\n{result.output}"
    )
