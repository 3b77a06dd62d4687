"""What the server's machine and its bucket refuse: 503 with a sentence, and on again by itself."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from tests.api.server_kit import ServerProcess, serving, settings
from tests.api.site_kit import CHAIN, Site
from tests.fault_proxy import Request
from tests.mounts_kit import mounted
from tests.s3_kit import bucket_server
from tests.waiting import wait_until
from tests.weed_kit import KEY, SECRET
from transforms.stores.store import content_sha256

_ROWS = "/api/v2/oracle/data"
_EXPORT = "/api/v2/networkhistory/export?fromBlock=41&toBlock=50&table=TABLE_ORDERS"
_LIVE = "/api/v2/stream/liquidity-provisions"
_SECONDS = 30
_HOUR = "3600"


def _without_rights() -> tuple[str, ...]:
    """What runs a command so that the rights of files hold for root, too."""
    if os.getuid():
        return ()
    rights = "-dac_override,-dac_read_search"
    return ("setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}", "--")


@contextmanager
def _rendering(site: Site, *through: str, **variables: str) -> Iterator[ServerProcess]:
    """A server that looks at its files once an hour, and has to render what is not published."""
    shutil.rmtree(site.stage.root)
    with ServerProcess(
        site.locations, through=through, POLL_SECONDS="0.05", LAG_SECONDS=_HOUR, **variables
    ) as process:
        yield process


def _is_ready(process: ServerProcess) -> bool:
    return httpx2.get(process.url + "/ready").status_code == 200


@pytest.mark.parametrize("path", [_EXPORT, _LIVE])
def test_a_data_file_that_may_not_be_read_is_lost_until_it_may(site: Site, path: str) -> None:
    table = "orders" if path == _EXPORT else "liquidity_provisions"
    (file,) = sorted((site.warehouse.cache / "data" / table).iterdir())[-1:]
    with _rendering(site, *_without_rights()) as process:
        wait_until(lambda: _is_ready(process), _SECONDS)
        file.chmod(0)
        if path == _LIVE:  # the head has left when the rows are read
            assert "cannot be read" in httpx2.get(process.url + path).text
        else:
            refused = httpx2.get(process.url + path)
            assert refused.status_code == 503
            assert "(Permission denied)" in refused.json()["error"]["message"]
        ready = httpx2.get(process.url + "/ready")
        assert ready.status_code == 503
        reason = ready.json()["reason"]
        assert reason.startswith(f"data/{table}/{file.name} cannot be read (Permission denied)")
        assert "give the server's user the right" in reason
        assert httpx2.get(process.url + _ROWS).json()["message"] == reason
        file.chmod(0o644)
        wait_until(lambda: _is_ready(process), _SECONDS)
        assert httpx2.get(process.url + _EXPORT).status_code == 200
        assert "Traceback" not in process.logged()


def test_a_file_that_may_not_be_read_at_the_start_is_named(site: Site) -> None:
    (file,) = sorted((site.warehouse.cache / "manifests").iterdir())[-1:]
    file.chmod(0)
    with _rendering(site, *_without_rights()) as process:
        reason = httpx2.get(process.url + "/ready").json()["reason"]
        assert reason.startswith(f"manifests/{file.name} cannot be read (Permission denied)")
        file.chmod(0o644)
        wait_until(lambda: _is_ready(process), _SECONDS)
        assert "Traceback" not in process.logged()


def test_a_file_that_is_restored_is_served_again_soon(site: Site) -> None:
    (file,) = sorted((site.warehouse.cache / "data" / "orders").iterdir())[-1:]
    data, stats = file.read_bytes(), file.stat()

    def write(content: bytes) -> None:
        """Of the same size and time, as a disk changes bytes, and a copy brings them back."""
        file.write_bytes(content)
        os.utime(file, ns=(stats.st_atime_ns, stats.st_mtime_ns))

    with _rendering(site) as process:
        wait_until(lambda: _is_ready(process), _SECONDS)
        write(bytes(len(data)))
        for _ in range(10):  # however often it is looked at meanwhile
            assert httpx2.get(process.url + _EXPORT).status_code == 503
            assert not _is_ready(process)
        write(data)
        wait_until(lambda: _is_ready(process), _SECONDS)
        assert httpx2.get(process.url + _EXPORT).status_code == 200


def test_a_full_disk_is_said_to_who_wants_an_export(site: Site, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    places = replace(site.locations, cache=cache)
    small = mounted(f"mount -t tmpfs -o size=64k none '{cache}'")
    with ServerProcess(places, through=small) as process:
        answer = httpx2.get(process.url + _EXPORT)
        assert answer.status_code == 503, answer.text
        assert "No space left on device" in answer.json()["error"]["message"]
        assert str(tmp_path) not in answer.text
        assert httpx2.get(process.url + _ROWS).status_code == 200
        assert _is_ready(process)
        logged = process.logged()
    assert str(cache) in logged
    assert "Traceback" not in logged


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_server_is_not_ready_until_its_bucket_gets_new_credentials(
    built_site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_asked: bool
) -> None:
    """Whether or not anybody asks for a file of the archive meanwhile."""
    file, key = tmp_path / "credentials", f"{CHAIN}/index.json"
    path = Path(built_site.locations.archive, key)

    def write(token: str) -> None:
        keys = f"aws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}"
        file.write_text(f"[default]\n{keys}\n{token}")

    with bucket_server() as server, server.store() as store:
        sha256 = content_sha256(path)
        store.put_if_absent(key, path, content_type="a/b", sha256=sha256, immutable=False)
        write("")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        expired, seen = set[str](), set[str]()

        def answer(request: Request) -> str | None:
            seen.add(token := request.header("x-amz-security-token"))
            return "400 ExpiredToken" if token in expired else None

        server.door.on_request = answer
        given = settings(replace(built_site.locations, archive=store.describe()))
        lag = 3600 if is_asked else 0.1
        given = replace(given, limits=replace(given.limits, lag_seconds=lag))
        with serving(given) as served, served.client() as client:
            assert client.get(f"/archive/{key}").content == path.read_bytes()
            assert client.get("/ready").status_code == 200
            expired |= {"", "old"}
            write("aws_session_token = old")
            for _ in range(3 * is_asked):
                refused = client.get(f"/archive/{key}")
                assert (refused.status_code, refused.json()["code"]) == (503, 14)
            wait_until(lambda: client.get("/ready").status_code == 503, _SECONDS)
            reason = client.get("/ready").json()["reason"]
            assert "renew its credentials" in reason
            assert store.describe() not in reason
            assert client.get(_ROWS).status_code == 200
            wait_until(lambda: "old" in seen, _SECONDS)
            assert client.get("/ready").status_code == 503
            expired.remove("")
            write("")
            wait_until(lambda: client.get("/ready").status_code == 200, _SECONDS)
            assert client.get(f"/archive/{key}").content == path.read_bytes()
            served.service.store.close()  # type: ignore[attr-defined]
