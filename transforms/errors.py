"""The error tree. A message is a sentence for whoever must act; each class says what can be done.

    StrataError
    ├── SegmentError       one segment's input is bad: quarantine it, go on with the rest
    ├── RangeError         a requested block range is not aligned, not held, or has a gap
    ├── ConflictError      different bytes stand where ours should go: replace explicitly
    ├── ConfigError        a setting is missing or wrong
    ├── IntegrityError     something we wrote no longer matches its recorded hash
    │   ├── MissingFileError   it is not there
    │   └── OtherFormatError   another release wrote it: nothing that it holds is used or replaced
    ├── NodeError          what a data node answers cannot be used: ask another one
    ├── UnreadableFilesError  DuckDB failed on files: their hashes say whether they are damaged
    ├── UnreadableObjectError  one object of a source cannot be read now: go on with the rest
    └── BusyError          another process holds a lock longer than we wait

Errors of the machine (disk full, lost connection) pass through as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


class StrataError(Exception):
    """Base of every error that Strata raises on purpose."""


class SegmentError(StrataError):
    """A segment's file or content cannot be used; the message says where and why."""


class RangeError(StrataError, ValueError):
    """A block range does not lie on the boundaries of segments that are held without a gap."""


class ConflictError(StrataError):
    """An object with other bytes already stands at this place in the archive."""


class ConfigError(StrataError, ValueError):
    """A setting is missing or cannot be used."""


class IntegrityError(StrataError):
    """Something written earlier no longer matches what was recorded about it."""


class MissingFileError(IntegrityError, FileNotFoundError):
    """Something written earlier is not there."""


class OtherFormatError(IntegrityError):
    """A document has a format that this release does not read."""


class NodeError(StrataError):
    """A data node, or what answers in its place, does not do what data nodes do."""


class UnreadableFilesError(StrataError):
    """Reading these files failed, of which at least one may be damaged; the cause says how."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.paths = frozenset(paths)
        super().__init__(f"cannot read {', '.join(map(str, sorted(self.paths)))}")


class UnreadableObjectError(StrataError):
    """One object of a source cannot be read now; trying again later may help."""


class BusyError(StrataError):
    """A lock is held by another process; trying again later helps."""


TRANSIENT = (BusyError, ConnectionError, TimeoutError)
"""Errors that may go away by themselves."""
