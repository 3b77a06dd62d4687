"""What a check can find, and the commands that mend it."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from transforms.block_range import BlockRange
from transforms.errors import IntegrityError

_MOST_NAMED = 5
_OF_THE_FILE = (errno.EIO, errno.EPROTO, errno.EACCES, errno.EISDIR, errno.ELOOP)


class Problem(Enum):
    """The kinds of findings: of each file there is at most one."""

    MISSING = "missing"
    """A file that is named and is not there, or a place without anything in it."""
    DAMAGED = "damaged"
    """A file with other bytes than recorded, or that cannot be read, or does not follow."""
    ORPHAN = "orphan"
    """A file that nothing names."""
    NOT_PUBLISHED = "not published"
    """Segments that are loaded, and not in the archive, or its lake, with every table."""
    NOT_LOADED = "not loaded"
    """Segments that are in the archive, and not in the warehouse."""
    DISAGREEMENT = "disagreement"
    """A file that is sound by itself, and has other content than the warehouse."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """What mends a finding: commands, in this order; what a person must know or do besides."""

    commands: tuple[str, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        run = f"run {', then '.join(self.commands)}" if self.commands else ""
        return "; ".join(filter(None, (run, self.note)))


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: its kind, its full address, what it is and what mends it."""

    problem: Problem
    place: str
    what: str
    remedy: Remedy

    def __str__(self) -> str:
        return f"{self.problem.value}: {self.place}: {self.what}: {self.remedy}"


@dataclass(frozen=True, slots=True)
class ForeignRows:
    """A number of rows of a table whose time belongs to no block of their segment."""

    table: str
    segment: BlockRange
    rows: int


def foreign_sentence(rows: Sequence[ForeignRows]) -> str:
    """Return a warning about such rows that names the first places."""
    named = [f"{r.rows:,} of {r.table} in segment {r.segment}" for r in rows[:_MOST_NAMED]]
    more = len(rows) - len(named)
    named += [f"and {more:,} more places, which strata status --json names"] if more else []
    what = "rows with a time that belongs to no block of their segment"
    return f"warning: {what}: {', '.join(named)}"


PUBLISH = Remedy(("strata publish",))
LAKE_PUBLISH = Remedy(PUBLISH.commands, "with STRATA_LAKE=1, if that is 0")
REPAIR = Remedy(("strata repair",))
LOAD = Remedy(
    ("strata load",), "strata load --archive ARCHIVE brings back what the source no longer has"
)
REPAIR_AND_LOAD = Remedy(
    (*REPAIR.commands, *LOAD.commands), f"other copies are taken in again; {LOAD.note}"
)
FIRST_LOAD = Remedy(LOAD.commands, "only if this is the place that is meant, and is mounted")
RESTORE = Remedy(
    (), "put it back from a backup, or run strata publish with the warehouse of this chain"
)


def replace_zips(blocks: BlockRange, table: str = "") -> Remedy:
    """Replace the published ZIPs of these blocks, or of one table, by the warehouse's."""
    reason, option = ("the ZIP was damaged", f" --table {table}") if table else ("a correction", "")
    command = f"strata publish --replace {shlex.quote(reason)}{option} --blocks {blocks}"
    return Remedy((command,))


def put_again(place: str) -> Remedy:
    """Remove a damaged file of the lake, so that the warehouse's is put there again."""
    tool = "aws s3 rm" if place.startswith("s3://") else "rm"
    return Remedy((f"{tool} {shlex.quote(place)}", *LAKE_PUBLISH.commands))


def make_again(place: str) -> Remedy:
    """Remove a table of the lake, or its log, so that a new one names what is loaded."""
    tool = "aws s3 rm --recursive" if place.startswith("s3://") else "rm -r"
    commands = (f"{tool} {shlex.quote(place)}", *LAKE_PUBLISH.commands)
    return Remedy(commands, "or put it back from a backup, with the versions of before")


def move_away(place: str, folder: str = ".") -> Remedy:
    """Move a file that does not belong there, or all of a folder, into a folder that is here."""
    if place.startswith("s3://"):
        tool = "aws s3 mv" if folder == "." else "aws s3 mv --recursive"
    else:
        tool = "mv -n"
    return Remedy((f"{tool} {shlex.quote(place)} {shlex.quote(folder)}",), "or delete it")


def read_findings(
    place: str, read: Callable[[], str], damaged: Remedy, missing: Remedy | None = None
) -> list[Finding]:
    """What is wrong with a file: what `read` says, or fails with; nothing where that is "".

    An error that is not about this file alone passes through.
    """
    problem, remedy = Problem.DAMAGED, damaged
    try:
        what = read()
    except FileNotFoundError:
        problem, what, remedy = Problem.MISSING, "it is missing", missing or damaged
    except IntegrityError as error:
        what = str(error)
    except OSError as error:
        about = str(error.filename or place)
        if error.errno not in _OF_THE_FILE or os.path.realpath(about) != os.path.realpath(place):
            raise
        what = f"the machine cannot read it: {error.strerror}"
    return [Finding(problem, place, what, remedy)] if what else []


def tally(findings: Iterable[Finding]) -> Generator[Finding, None, int]:
    """Yield findings; returns how many there were."""
    count = 0
    for finding in findings:
        count += 1
        yield finding
    return count


def present(data: bytes | None, name: str) -> bytes:
    """What was read of a file. Raises `FileNotFoundError` where that is nothing."""
    if data is None:
        raise FileNotFoundError(name)
    return data


def restored(findings: Iterable[Finding]) -> Iterator[Finding]:
    """What is wrong with an archive whose warehouse is not here."""
    return (replace(finding, remedy=RESTORE) for finding in findings)
