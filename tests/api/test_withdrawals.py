"""Withdrawals over generated segments (spec 4.7; decision 20)."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from tests.api.answers_kit import Json, ask, page
from tests.api.story_kit import ALICE, BOB, story
from tests.segments_kit import block_time

_PATH = "/api/v2/withdrawals"
_SECOND = 10**9
_GENESIS = 1672531200 * _SECOND  # 2023-01-01, where the kit's blocks begin, one a second


def _shown(edges: list[Json]) -> list[tuple[str, str]]:
    return [(edge["node"]["id"][:2], edge["node"]["partyId"][:2]) for edge in edges]


_ALL = [
    ("06", "ne"),
    ("03", "c2"),
    ("05", "c2"),
    ("05", "c1"),
    ("01", "c1"),
    ("04", "c1"),
    ("02", "c1"),
]
"""Newest first by the time when they were last written."""


def test_of_each_withdrawal_of_a_party_the_last_row_counts() -> None:
    edges, _ = page(story(), _PATH)
    assert _shown(edges) == _ALL
    statuses = {edge["node"]["id"][:2]: edge["node"]["status"] for edge in edges}
    assert statuses["01"] == "STATUS_FINALIZED"
    assert statuses["03"] == "STATUS_REJECTED"


def test_oldest_first_turns_them_round() -> None:
    edges, _ = page(story(), f"{_PATH}?pagination.newestFirst=false")
    assert _shown(edges) == _ALL[::-1]


@pytest.mark.parametrize(
    ("party", "shown"),
    [
        (ALICE, "c1"),
        (ALICE.upper(), "c1"),
        (BOB, "c2"),
        ("network", "ne"),
        ("9" * 64, "none"),
    ],
)
def test_a_party_has_its_own(party: str, shown: str) -> None:
    edges, _ = page(story(), f"{_PATH}?partyId={party}")
    assert _shown(edges) == [row for row in _ALL if row[1] == shown]


def test_an_empty_party_is_all_of_them() -> None:
    assert page(story(), f"{_PATH}?partyId=") == page(story(), _PATH)


def test_amounts_are_exact_whatever_their_size() -> None:
    edges, _ = page(story(), f"{_PATH}?partyId={ALICE}")
    amounts = {edge["node"]["id"][:2]: edge["node"]["amount"] for edge in edges}
    assert amounts["04"] == "1" + "0" * 60
    assert amounts["02"] == "5.5"


@pytest.mark.parametrize(
    ("start", "end", "ids"),
    [
        (14, None, ["06", "03", "05", "05"]),
        (None, 14, ["01", "04", "02"]),
        (4, 14, ["01", "04"]),
        (14, 14, []),
        (2, 3, []),  # withdrawal 01 was written then, but not for the last time
        (12, 13, ["01"]),
    ],
)
def test_a_range_of_dates_is_about_the_last_row_and_leaves_out_its_end(
    start: int | None, end: int | None, ids: list[str]
) -> None:
    given = (("startTimestamp", start), ("endTimestamp", end))
    query = "&".join(
        f"dateRange.{name}={_GENESIS + block * _SECOND}"
        for name, block in given
        if block is not None
    )
    edges, info = page(story(), f"{_PATH}?{query}")
    assert [id_ for id_, _ in _shown(edges)] == ids
    assert (info["hasNextPage"], info["hasPreviousPage"]) == (False, False)
    first, _ = page(story(), f"{_PATH}?{query}&pagination.first=1")
    assert first == edges[:1]


def test_dates_are_cut_to_microseconds() -> None:
    at = _GENESIS + 12 * _SECOND
    edges, _ = page(story(), f"{_PATH}?dateRange.startTimestamp={at + 999}")
    assert "01" in dict(_shown(edges))
    edges, _ = page(story(), f"{_PATH}?dateRange.startTimestamp={at + 1000}")
    assert "01" not in dict(_shown(edges))


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("partyId=zz", 10000),
        ("partyId=ab", 10000),
        ("partyId=VOTE", 10000),
        ("dateRange.startTimestamp=2&dateRange.endTimestamp=1", 10000),
        ("pagination.after=zzz", 10028),
    ],
)
def test_what_cannot_be_right_is_refused(query: str, code: int) -> None:
    status, body = ask(story(), f"{_PATH}?{query}")
    assert (status, body["code"], body["details"][0]["code"]) == (400, 3, code)


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 9])
@pytest.mark.parametrize("newest", ["true", "false"])
@pytest.mark.parametrize(
    ("asked", "flag", "place", "cursor"),
    [
        ("first", "hasNextPage", "after", "endCursor"),
        ("last", "hasPreviousPage", "before", "startCursor"),
    ],
)
def test_walking_visits_every_withdrawal_once(
    asked: str, flag: str, place: str, cursor: str, newest: str, size: int
) -> None:
    seen: list[tuple[str, str]] = []
    query = f"pagination.{asked}={size}&pagination.newestFirst={newest}"
    at = ""
    while True:
        edges, info = page(story(), f"{_PATH}?{query}{at}")
        seen = [*seen, *_shown(edges)] if asked == "first" else [*_shown(edges), *seen]
        if not info[flag]:
            break
        at = f"&pagination.{place}={quote(info[cursor])}"
    assert seen == (_ALL if newest == "true" else _ALL[::-1])


def test_only_a_shared_id_has_its_party_in_the_cursor() -> None:
    edges, _ = page(story(), _PATH)
    cursors = [json.loads(base64.b64decode(edge["cursor"])) for edge in edges]
    assert [cursor.get("partyId", "")[:2] for cursor in cursors] == ["", "", "c2", "c1", "", "", ""]


def test_one_withdrawal_is_found_by_its_id() -> None:
    status, body = ask(story(), f"/api/v2/withdrawal/{'01' * 32}")
    edges, _ = page(story(), _PATH)
    assert (status, body["withdrawal"]) == (200, edges[4]["node"])
    assert body["withdrawal"]["withdrawnTimestamp"] == str(_GENESIS + 12 * _SECOND)


@pytest.mark.parametrize(
    ("id_", "status", "code", "message"),
    [
        ("", 400, 80003, "missing withdrawal ID"),
        ("ab", 400, 10000, "invalid withdrawal ID"),
        ("9" * 64, 404, 150001, "failed to get withdrawal"),
    ],
)
def test_a_withdrawal_that_is_not_there_is_an_error(
    id_: str, status: int, code: int, message: str
) -> None:
    got, body = ask(story(), f"/api/v2/withdrawal/{id_}")
    (detail,) = body["details"]
    assert (got, detail["code"], detail["message"]) == (status, code, message)


def test_the_kit_and_this_test_agree_on_time() -> None:
    assert block_time(0) == "2023-01-01 00:00:00+00"
