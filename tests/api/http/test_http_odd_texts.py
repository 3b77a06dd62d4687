"""Halves of surrogate pairs, which no UTF-8 can hold, in requests and in what was loaded."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from urllib.parse import quote

import duckdb

from tests.api.rpc.kit import client_of
from tests.api.server_kit import Served, serving, settings
from tests.api.site_kit import CHAIN, Site
from tests.cases import each_of
from transforms.objects import StoredFile
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import content_sha256
from transforms.warehouse.capture_file import load_captures
from transforms.warehouse.log.snapshot import Snapshot

_PARTY = "c1" * 32
_HALF = "\ud800"
_RAW = "%ED%A0%80"
_CAPTURE = {
    "partyId": _PARTY,
    "chainId": CHAIN,
    "statistics": {"epochSeq": 5, "votes": {"statistics": [{"proposal": "pXq"}]}},
}


def _cursor(text: str) -> str:
    return quote(base64.b64encode(text.encode()).decode())


@each_of(
    "path",
    [
        "/api/v2/oracle/data",
        f"/api/v2/node/signatures?id={_PARTY}",
        f"/api/v2/order/versions/{_PARTY}",
        "/api/v2/withdrawals",
        f"/api/v2/withdrawals?partyId={_PARTY}",
        f"/api/v2/liquidity/provisions?partyId={_PARTY}",
    ],
)
@each_of(
    "text",
    [
        '{"vegaTime":"2023-01-01T00:00:00Z","id":"\\ud800"}',
        '{"vegaTime":"\\ud800","id":"03"}',
        '{"\\ud800":1}',
        '{"resource_id":"\\ud800","sig":"\\udfff"}',
        '{"createdAt":"1970-01-01T00:00:00Z","vegaTime":"1970-01-01T00:00:00Z",'
        '"id":"\\ud800","version":1}',
    ],
)
def test_a_cursor_with_half_a_pair_is_a_bad_cursor(served: Served, path: str, text: str) -> None:
    sign = "&" if "?" in path else "?"
    with served.client() as client:
        answer = client.get(f"{path}{sign}pagination.after={_cursor(text)}")
    assert answer.status_code == 400, answer.text
    body = answer.json()
    assert (body["code"], body["details"][0]["code"]) == (3, 10028)
    assert body["details"][0]["inner"].startswith("failed to decode after cursor: ")


@each_of(
    ("path", "status"),
    [
        (f"/api/v2/oracle/data?oracleSpecId={_RAW}", 400),
        (f"/api/v2/oracle/data?pagination.after={_RAW}", 400),
        (f"/api/v2/oracle/data?{_RAW}={_RAW}", 200),
        (f"/api/v2/oracle/data?pagination.first={_RAW}", 400),
        (f"/api/v2/order/versions/{_RAW}", 400),
        (f"/api/v2/withdrawal/{_RAW}", 400),
        (f"/api/v2/withdrawals?partyId={_RAW}", 400),
        (f"/api/v2/withdrawals?dateRange.startTimestamp={_RAW}", 400),
        (f"/api/v2/liquidity/provisions?partyId={_PARTY}&reference={_RAW}", 200),
        (f"/api/v2/liquidity/provisions?reference={_RAW}", 400),
        (f"/api/v2/node/signatures?id={_RAW}", 400),
        (f"/api/v2/statistics/spam/{_RAW}", 400),
        (f"/api/v2/stream/liquidity-provisions?partyId={_RAW}", 400),
        (f"/api/v2/networkhistory/export?table={_RAW}", 400),
        (f"/archive/{_RAW}", 404),
        (f"/?{_RAW}={_RAW}", 200),
        (f"/{_RAW}", 404),
    ],
)
def test_bytes_that_are_no_utf_8_are_answered_like_any_other_wrong_text(
    served: Served, path: str, status: int
) -> None:
    with served.client() as client:
        answer = client.get(path)
    assert answer.status_code == status, answer.text
    if status != 200:
        assert "unexpected failure" not in answer.text
        assert answer.json()


def test_a_capture_with_half_a_pair_that_was_loaded_before_is_answered(site: Site) -> None:
    captures = site.source_folder / "spam" / f"{CHAIN}-9.ndjson"
    captures.parent.mkdir()
    captures.write_text(json.dumps(_CAPTURE))
    load_captures(site.warehouse, Source(FolderStore(site.source_folder)))
    _change_captures(site, "replace(statistics, 'X', '\\ud800')")
    with serving(settings(site.locations, grpc=True)) as served:
        with served.client() as client:
            answer = client.get(f"/api/v2/statistics/spam/{_PARTY}")
        with client_of(served) as grpc_client:
            message = grpc_client.ask("GetSpamStatistics", party_id=_PARTY).message
    assert answer.status_code == 200, answer.text
    (vote,) = answer.json()["statistics"]["votes"]["statistics"]
    assert vote["proposal"] == message.statistics.votes.statistics[0].proposal == "p?q"


def _change_captures(site: Site, statistics: str) -> None:
    """What an earlier release may have loaded."""
    warehouse = site.warehouse

    def change(newest: Snapshot) -> Snapshot:
        assert newest.captures is not None
        path = warehouse.cache / newest.captures.key
        with duckdb.connect(path) as con:
            con.execute(f"update captures set statistics = {statistics}")
        sha256 = content_sha256(path)
        path = path.rename(path.with_name(f"{sha256}.duckdb"))
        file = StoredFile(f"spam/{sha256}.duckdb", path.stat().st_size, sha256)
        return replace(newest, captures=file)

    warehouse.backing.log.commit(change)
