"""Recorded requests of a real data node, sent over HTTP.

What the query layer answers is held against the recordings elsewhere; here the server must answer
what the query layer does, with the headers of the recordings, and the requests about HTTP itself.
An answer that differs from the recording names the decision that says so (docs/api.md).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import httpx2
import pytest

from exporters.locations import Locations
from exporters.zip_names import NameStyle
from tests.api.answers_kit import ask
from tests.api.server_kit import Served, serving, settings
from tests.api.site_kit import Site
from tests.api.test_golden import TRANSPORT, _shared, golden_site
from tests.transforms.warehouse_kit import history_segment

Record = dict[str, Any]


class Otherwise(NamedTuple):
    """What we answer, and the decision that says so."""

    decision: int
    status: int
    code: int


EXCEPTIONS = {
    # The range 0 to 0, asked for by leaving both ends out, is not held.
    "/api/v2/networkhistory/export?table=5": Otherwise(6, 404, 5),
}


class Replay(NamedTuple):
    """A server that has loaded a set's segments, and the set's records."""

    served: Served
    client: httpx2.Client
    records: list[Record]


@pytest.fixture(scope="module", params=["golden/api", "golden/real"])
def replay(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replay]:
    (path,) = (_shared() / request.param).glob("*.jsonl")
    site = golden_site(request.param, tmp_path_factory.mktemp("replayed"))
    with serving(settings(site.locations)) as served, served.client() as client:
        client.headers["accept-encoding"] = "identity"
        yield Replay(served, client, [json.loads(line) for line in path.read_text().splitlines()])


def test_the_server_answers_what_the_query_layer_does_with_the_recorded_headers(
    replay: Replay,
) -> None:
    with replay.served.service.snapshots.reading() as reading:
        for record in replay.records:
            if TRANSPORT.fullmatch(record["request"]):
                continue
            status, body = ask(reading, record["request"])
            answer = replay.client.get(record["request"])
            assert (answer.status_code, answer.json()) == (status, body), record["request"]
            if status == record["status"]:
                types = answer.headers.get_list("content-type")
                assert types == record["content_types"], record["request"]
                _check_headers(answer, record)


def _check_headers(answer: httpx2.Response, record: Record) -> None:
    for name, value in record["headers"].items():
        assert answer.headers[name] == value, record["request"]


def test_requests_about_http_are_answered_as_recorded_or_as_decided(replay: Replay) -> None:
    asked = [record for record in replay.records if TRANSPORT.fullmatch(record["request"])]
    assert asked
    for record in asked:
        if record["status"] == 200 and "export" in record["request"]:
            continue  # other segments: see below
        answer = replay.client.get(record["request"])
        otherwise = EXCEPTIONS.get(record["request"])
        if otherwise:
            body = answer.json()
            assert answer.status_code == otherwise.status != record["status"]
            assert body["error"]["code"] == otherwise.code
            assert body.keys() == json.loads(record["body"]).keys()
            continue
        assert answer.status_code == record["status"]
        assert answer.headers.get_list("content-type") == record["content_types"]
        if record["content_types"] == ["application/json"]:
            assert answer.json() == json.loads(record["body"])
        else:
            assert answer.text == record["body"]


def test_every_exception_was_recorded_otherwise(replay: Replay) -> None:
    recorded = {record["request"] for record in replay.records}
    if "/nope" in recorded:
        assert recorded >= EXCEPTIONS.keys()


def _recorded_exports() -> list[tuple[str, str, list[str]]]:
    """Of each export: the request, the file's disposition, the names of the CSVs in it."""
    found = []
    for line in (_shared() / "golden/api/responses.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["body_b64"]:
            with ZipFile(BytesIO(base64.b64decode(record["body_b64"]))) as archive:
                names = archive.namelist()
            found.append((record["request"], record["headers"]["Content-Disposition"], names))
    return found


def test_exports_of_the_recorded_ranges_have_the_recorded_names(tmp_path: Path) -> None:
    for first, version in ((1, 1), (1001, 1), (2001, 2)):
        history_segment(
            tmp_path / "source",
            chain_id="test-chain",
            version=version,
            first=first,
            last=first + 999,
        )
    site = Site(tmp_path)
    site.load()
    locations = Locations(
        source="",
        warehouse=str(site.warehouse.cache),
        archive=str(tmp_path / "archive"),
        name_style=NameStyle.REFERENCE,
    )
    with serving(settings(locations)) as served, served.client() as client:
        for request, disposition, names in _recorded_exports():
            answer = client.get(request)
            assert answer.status_code == 200, answer.text
            assert answer.headers.get_list("content-type") == ["application/zip"]
            assert answer.headers["content-disposition"] == disposition
            with ZipFile(BytesIO(answer.content)) as archive:
                assert archive.namelist() == names
