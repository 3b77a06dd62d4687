"""Files of spam captures: `spam/<chain id>-<height>.ndjson` (also `.gz`), a line per party."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from transforms.spam.lines import MAX_LINE_BYTES, Capture, CaptureLineError, parse_capture

PREFIX = "spam/"
"""Where captures lie in a source of segments."""

SUFFIXES = (".ndjson", ".ndjson.gz")
_NAME = re.compile(r"spam/(?P<chain>.+)-(?P<height>[0-9]{1,19})\.ndjson(\.gz)?")
_MAX_KEPT_TEXT = 1000


@dataclass(frozen=True, slots=True)
class FoundCapture:
    """A capture and where it stands: its file's key, the block height in its name, its line."""

    capture: Capture
    height: int
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line that is no capture and why; line 0 is the file as a whole."""

    file: str
    line: int
    reason: str
    text: str


def named_height(key: str, chain_id: str) -> int | None:
    """The block height in the name of a file of a chain's captures; None for any other name."""
    name = _NAME.fullmatch(key)
    return int(name["height"]) if name and name["chain"] == chain_id else None


def read_captures(
    key: str, path: Path, height: int, chain_id: str
) -> Iterator[FoundCapture | RefusedLine]:
    """Read the file that was fetched from `key` to `path`, line by line, blank ones passed over."""
    number = 0
    with gzip.open(path) if key.endswith(".gz") else path.open("rb") as stream:
        try:
            for number, line in enumerate(_lines(stream), start=1):  # type: ignore[arg-type]
                if line.strip():
                    yield _read_line(key, height, number, line, chain_id)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            reason = f"it cannot be unpacked after line {number}: {error}"
            yield RefusedLine(key, 0, reason, "")


def _read_line(
    key: str, height: int, number: int, line: bytes, chain_id: str
) -> FoundCapture | RefusedLine:
    try:
        return FoundCapture(parse_capture(line, chain_id), height, key, number)
    except CaptureLineError as error:
        text = line[:_MAX_KEPT_TEXT].decode("utf-8", "replace")
        return RefusedLine(key, number, str(error), text)


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Lines without their ends; of one that is too long no more than shows that it is."""
    most = MAX_LINE_BYTES + 2
    while line := stream.readline(most):
        rest = line
        while len(rest) == most and not rest.endswith(b"\n"):
            rest = stream.readline(most)
        yield line.rstrip(b"\r\n")
