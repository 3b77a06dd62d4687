"""Recorded requests of a real data node, asked of ours: every answer equal, or a decision says why.

An answer that differs must be one of `EXCEPTIONS`, which name the decision (docs/api.md lists them)
and what we answer instead; an exception that explains nothing fails too.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from api.core.open_snapshots import OpenSnapshots, Reading
from tests.api.answers_kit import Json, ask, page
from tests.api.site_kit import Site
from tests.shared_folders import shared_copy

TRANSPORT = re.compile(r"/nope|/health|/api/v2/networkhistory/export\?.*")
"""Requests that say something about HTTP only: tests of the server replay them."""

_PAGINATION = ("pagination.first", "pagination.last", "pagination.after", "pagination.before")
_EXTRA_KEYS = ("version", "seqNum", "partyId")


@dataclass(frozen=True)
class Recorded:
    request: str
    status: int
    body: Json

    @property
    def listing(self) -> str:
        """What is listed, without which part of it and from which end."""
        path, _, query = self.request.partition("?")
        kept = [pair for pair in parse_qsl(query) if not pair[0].startswith("pagination.")]
        return f"{path}?{kept}"


@dataclass(frozen=True)
class Difference:
    """Requests that we answer otherwise, the decision that says so, and the proof that we do."""

    decision: int
    requests: str
    holds: Callable[[Reading, Recorded, int, Json], bool]


def _refused(code: int, text: str) -> Callable[[Reading, Recorded, int, Json], bool]:
    def holds(_reading: Reading, _recorded: Recorded, status: int, body: Json) -> bool:
        (detail,) = body["details"]
        return status == 400 and detail["code"] == code and text in detail["inner"]

    return holds


def _is_slice_of_versions(reading: Reading, recorded: Recorded, status: int, body: Json) -> bool:
    """The page is the part of all versions, in the order asked for, that was asked for."""
    path, _, query = recorded.request.partition("?")
    given = dict(parse_qsl(query))
    rows, _ = page(reading, path)
    if given.get("pagination.newestFirst") == "false":
        rows.reverse()
    size = int(given.get("pagination.first") or given.get("pagination.last") or 1000)
    before, after = given.get("pagination.before"), given.get("pagination.after")
    times = [_decoded(row["cursor"])["vegaTime"] for row in rows]
    end, start = len(rows), 0
    if before is not None:  # of several versions in one block, the nearest
        end = len(rows) - 1 - times[::-1].index(_decoded(before)["vegaTime"])
    if after is not None:
        start = times.index(_decoded(after)["vegaTime"]) + 1
    if before is not None or "pagination.last" in given:
        start = max(0, end - size)
    else:
        end = min(len(rows), start + size)
    info = body["orders"]["pageInfo"]
    return (
        status == 200
        and body["orders"]["edges"] == rows[start:end]
        and (info["hasPreviousPage"], info["hasNextPage"]) == (start > 0, end < len(rows))
    )


_VERSIONS = r"/api/v2/order/versions/\w{64}\?.*"
EXCEPTIONS: Sequence[Difference] = (
    Difference(
        16,
        r".*pagination\.first=1&pagination\.last=1",
        _refused(10028, "cannot provide both forward and backward cursors"),
    ),
    Difference(17, r".*pagination\.after=abcd", _refused(10028, "failed to decode after cursor")),
    # `last` and `before` work, where the data node fails.
    Difference(19, _VERSIONS + r"pagination\.(last=[1-9]|before=\w{9}).*", _is_slice_of_versions),
    # `newestFirst=false` turns the order round, which the data node does not.
    Difference(
        19,
        _VERSIONS.replace(".*", r"(?!pagination\.last)") + r".*newestFirst=false.*",
        _is_slice_of_versions,
    ),
    Difference(20, r".*dateRange\.startTimestamp=.*", _refused(10000, "after its end")),
    Difference(23, r"/statistics/spam/fail", _refused(10000, "decoding 'fail'")),
    Difference(
        52,
        r"/api/v2/liquidity/provisions",
        _refused(280001, "market or party filters are required"),
    ),
)
COUNTS = {
    "golden/api": {0: 307, 16: 3, 17: 38, 19: 35, 20: 8, 23: 1},
    "golden/real": {0: 102, 17: 17, 19: 6, 52: 1},
}
"""How many answers differ by which decision; 0: none. 17 is about cursors, too: of rows
that tie, and of order versions."""


def _shared() -> Path:
    default = Path(__file__).resolve().parents[2].parent / "shared"
    root = Path(os.environ.get("STRATA_TEST_SHARED") or default)
    if not (root / "golden").is_dir():
        reason = f"no recorded answers in {root}: set STRATA_TEST_SHARED"
        if os.environ.get("STRATA_TEST_REQUIRE_SHARED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return root


def _recorded(path: Path) -> list[Recorded]:
    rows = map(json.loads, path.read_text().splitlines())
    read = [(row["request"], row["status"], row["body"]) for row in rows]
    return [
        Recorded(request, status, json.loads(body) if body and body[0] == "{" else body)
        for request, status, body in read
    ]


@pytest.fixture(scope="module", params=["golden/api", "golden/real"])
def replayed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Reading, list[Recorded]]]:
    """The records of one set, and ours that has loaded the segments they belong to."""
    (records,) = (_shared() / request.param).glob("*.jsonl")
    site = golden_site(request.param, tmp_path_factory.mktemp("replayed"))
    with OpenSnapshots.open(site.warehouse) as snapshots, snapshots.reading() as reading:
        yield request.param, reading, _recorded(records)


def golden_site(name: str, folder: Path) -> Site:
    """A site that has loaded the segments which a set of records belongs to."""
    segments = _shared() / ("golden/api" if name == "golden/api" else "segments/real/short")
    return Site(
        shared_copy(f"replayed-{Path(name).name}", lambda place: Site(place).load(segments), folder)
    )


def _decoded(cursor: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(base64.b64decode(cursor))
    return read


def _stripped(cursor: str) -> str:
    """A cursor without the key that is added to the data node's own, which are not unique."""
    if not cursor:
        return cursor
    kept = {key: value for key, value in _decoded(cursor).items() if key not in _EXTRA_KEYS}
    return base64.b64encode(json.dumps(kept, separators=(",", ":")).encode()).decode()


class Ties:
    """Rows that the data node's order does not tell apart, by listing and cursor."""

    def __init__(self, records: Sequence[Recorded]) -> None:
        self._rows: dict[tuple[str, str], list[Json]] = defaultdict(list)
        for recorded in records:
            for edge in _edges(recorded.body):
                rows = self._rows[recorded.listing, edge["cursor"]]
                if edge["node"] not in rows:
                    rows.append(edge["node"])

    def allow(self, recorded: Recorded, ours: Json) -> bool:
        """Whether a page differs only in which of tied rows stand where, and in their cursors."""
        (theirs,), (found,) = recorded.body.values(), ours.values()
        places = [edge["cursor"] for edge in theirs["edges"]]
        if [_stripped(edge["cursor"]) for edge in found["edges"]] != places:
            return False
        for edge, place in zip(found["edges"], places, strict=True):
            rows = self._rows[recorded.listing, place]
            is_same = len(rows) == 1 and "orders" not in ours
            if edge["node"] not in rows or is_same != (edge["cursor"] == place):
                return False
        info = {
            key: _stripped(value) if key.endswith("Cursor") else value
            for key, value in found["pageInfo"].items()
        }
        nodes = [json.dumps(edge) for edge in found["edges"]]
        return bool(info == theirs["pageInfo"]) and len({*nodes}) == len(nodes)


def _edges(body: Json) -> list[Json]:
    if not isinstance(body, dict) or len(body) != 1:
        return []
    (content,) = body.values()
    return content.get("edges", []) if isinstance(content, dict) else []


def _decision(reading: Reading, recorded: Recorded, ties: Ties) -> int:
    """The decision that explains our answer, 0 where it is the recorded one."""
    status, body = ask(reading, recorded.request)
    if (status, body) == (recorded.status, recorded.body):
        return 0
    if status == recorded.status == 200 and _edges(body) and ties.allow(recorded, body):
        return 17
    for reason in EXCEPTIONS:
        if re.fullmatch(reason.requests, recorded.request):
            assert reason.holds(reading, recorded, status, body), recorded.request
            return reason.decision
    raise AssertionError(f"no decision explains {recorded.request}: {status} {body}")


def test_every_recorded_request_is_answered_as_recorded_or_as_decided(
    replayed: tuple[str, Reading, list[Recorded]],
) -> None:
    name, reading, records = replayed
    asked = [recorded for recorded in records if not TRANSPORT.fullmatch(recorded.request)]
    ties = Ties(records)
    decisions = Counter(_decision(reading, recorded, ties) for recorded in asked)
    assert decisions == COUNTS[name]


def test_only_requests_about_http_are_left_to_the_server(
    replayed: tuple[str, Reading, list[Recorded]],
) -> None:
    name, _, records = replayed
    left = [recorded.request for recorded in records if TRANSPORT.fullmatch(recorded.request)]
    assert len(left) == len(records) - sum(COUNTS[name].values())
    assert len(left) == {"golden/api": 9, "golden/real": 1}[name]
