"""What people see in a browser: the state, errors, and what the description says of answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from exporters.locations import Locations
from tests.api.server_kit import Served, serving, settings
from tests.api.site_kit import CHAIN
from tests.page_kit import Page


@pytest.fixture
def client(served: Served) -> Iterator[httpx2.Client]:
    with served.client() as found:
        yield found


def test_the_state_of_a_server_without_data_says_so(tmp_path: Path) -> None:
    places = Locations(warehouse=str(tmp_path / "w"), archive=str(tmp_path / "a"))
    with serving(settings(places)) as served, served.client() as client:
        ready = client.get("/ready")
        assert ready.status_code == 503
        assert "nothing is loaded yet" in ready.json()["reason"]
        stream = client.get("/api/v2/stream/liquidity-provisions")
    assert stream.status_code == 503
    assert "nothing is loaded yet" in stream.text


def test_every_page_says_whose_it_is_and_what_for(client: httpx2.Client) -> None:
    for path in ("/", "/docs", f"/archive/{CHAIN}/index.html"):
        text = Page(client.get(path).content).text
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
