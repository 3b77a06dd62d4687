"""What people see in a browser: the state, errors, and what the description says of answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import httpx2
import pytest

from api.core.server_settings import Access
from exporters.locations import Locations
from tests.api.server_kit import Served, serving, settings
from tests.api.site_kit import CHAIN
from tests.page_kit import HOSTILE, Page

# As Chromium sends it.
BROWSER = {
    "accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8",
}
_EXPORT = "/api/v2/networkhistory/export"


@pytest.fixture
def client(served: Served) -> Iterator[httpx2.Client]:
    with served.client() as found:
        yield found


def test_the_state_is_a_page_with_what_ready_says(client: httpx2.Client) -> None:
    answer = client.get("/status")
    text = Page(answer.content).text
    state = client.get("/ready").json()
    assert answer.headers["content-type"].startswith("text/html")
    assert "Ready" in text
    assert f"Chain{CHAIN}" in text
    assert f"Newest block{state['blockHeight']:,}" in text
    assert f"Segments{state['segments']}" in text


def test_the_state_of_a_server_without_data_says_so(tmp_path: Path) -> None:
    places = Locations(warehouse=str(tmp_path / "w"), archive=str(tmp_path / "a"))
    with serving(settings(places)) as served, served.client() as client:
        text = Page(client.get("/status").content).text
        assert "Not ready" in text
        assert "nothing is loaded yet" in text
        stream = client.get("/api/v2/stream/liquidity-provisions")
    assert stream.status_code == 503
    assert "nothing is loaded yet" in stream.text


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        (f"{_EXPORT}?table=TABLE_ORDERS&fromBlock=2&toBlock=50", 400, "block 2"),
        (f"{_EXPORT}?table=TABLE_ORDERS&fromBlock=x&toBlock=50", 400, "x"),
        (f"{_EXPORT}?fromBlock=1&toBlock=50", 400, "table"),
        (f"/archive/{CHAIN}/orders/nothing.zip", 404, "There is nothing here"),
        ("/nothing/of%2Fthe/kind", 404, "There is nothing here"),
        (f"{_EXPORT}?table={HOSTILE}&fromBlock=1&toBlock=50", 400, "script"),
    ],
)
def test_a_wrong_entry_leads_a_browser_to_a_page_and_a_program_to_json(
    client: httpx2.Client, path: str, status: int, said: str
) -> None:
    told = client.get(path)
    assert told.status_code == status
    assert told.headers["content-type"] == "application/json"
    answer = client.get(path, headers=BROWSER)
    page = Page(answer.content)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert "accept" in answer.headers["vary"].split(", ")
    assert said in page.text
    assert "script" not in page.elements
    for link in page.links:
        assert client.get(urljoin(path, link)).status_code == 200, link
    (policy,) = answer.headers.get_list("content-security-policy")
    assert "default-src 'self'" in policy


def test_what_programs_call_stays_json_in_a_browser(client: httpx2.Client) -> None:
    for path in ("/api/v2/withdrawal/x", "/ready", "/openapi.json"):
        assert (
            client.get(path, headers=BROWSER).headers["content-type"].startswith("application/json")
        )


def test_a_page_that_is_not_to_be_had_says_why(served: Served) -> None:
    guarded = settings(served.service.settings.locations, access=Access(tokens=("secret",)))
    with serving(guarded) as other, other.client() as client:
        answer = client.get("/", headers=BROWSER)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "A token is needed" in Page(answer.content).text


def test_every_page_says_whose_it_is_and_what_for(client: httpx2.Client) -> None:
    for path in ("/", "/docs", "/status", "/nothing", f"/archive/{CHAIN}/index.html"):
        text = Page(client.get(path, headers=BROWSER).content).text
        assert "Strata Exact, verifiable exports of a trading network's history" in text, path


def test_the_archives_page_says_when_its_blocks_were_made(client: httpx2.Client) -> None:
    index = client.get(f"/archive/{CHAIN}/index.json").json()
    page, files = client.get("/"), client.get(f"/archive/{CHAIN}/index.html")
    for time in (index["first_time"], index["last_time"]):
        shown = f"{time[:10]} {time[11:16]} UTC"
        for one in (page, files):
            assert shown in Page(one.content).text
    times = " to ".join(index[name][:19].replace("T", " ") for name in ("first_time", "last_time"))
    for path in ("index.html", f"{CHAIN}/index.html"):
        assert times in Page(client.get(f"/archive/{path}").content).text
    shard = Page(client.get(f"/archive/{CHAIN}/index/000000000.html").content).text
    assert shard.count(f"1 to 20{times[:19]} to ") == len(index["tables"])
