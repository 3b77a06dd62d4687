"""Another library (deltalake) reaches what a store reaches, by what the store says as of now."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporters.lake.log.delta import DeltaLog
from tests.exporters.lake.log.log_kit import KEY, commit, named, names, new_log, newest
from tests.fault_proxy import Request
from tests.s3_kit import BucketServer, bucket_and_key, bucket_server
from tests.weed_kit import KEY as ACCESS_KEY
from tests.weed_kit import SECRET
from transforms.errors import ConfigError
from transforms.stores.folder_store import FolderStore
from transforms.stores.s3 import S3Store
from transforms.stores.store import LostRaceError

NOBODY = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as running:
        yield running


@pytest.fixture
def bucket(server: BucketServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty bucket, of which no variable says how it is reached."""
    made = server.bucket()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    return made


def _configured(folder: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Let a profile say these things."""
    config = folder / "config"
    config.write_text("\n".join(["[profile strata]", "region = us-east-1", *lines, ""]))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "strata")


def _assert_reached(store: S3Store) -> None:
    log = new_log(store)
    commit(log, 1, 2)
    assert names(log) == [named(1).name, named(2).name]
    assert store.head(f"{KEY}/_delta_log/{2:020}.json") is not None
    store.close()


def test_a_plain_http_endpoint_and_keys_in_variables_are_passed_on(server: BucketServer) -> None:
    with server.store() as store:
        _assert_reached(store)


def test_a_profile_says_keys_and_endpoint(
    server: BucketServer, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _configured(
        tmp_path,
        monkeypatch,
        f"aws_access_key_id = {ACCESS_KEY}",
        f"aws_secret_access_key = {SECRET}",
        f"endpoint_url = {server.url}",
    )
    _assert_reached(S3Store(bucket, "prefix"))


def test_a_process_says_the_keys(
    server: BucketServer, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _configured(tmp_path, monkeypatch, f"credential_process = {_process(tmp_path)}")
    _assert_reached(S3Store(bucket, "prefix", server.options()))


def _process(folder: Path, token: str = "") -> str:
    """A command that says good keys, and with a `token` another session token each time."""
    said = {"Version": 1, "AccessKeyId": ACCESS_KEY, "SecretAccessKey": SECRET}
    script, count = folder / "keys.py", folder / "count"
    count.write_text("")
    # boto3 asks again for what lasts less than a quarter of an hour.
    script.write_text(f"""
import datetime, json
with open({str(count)!r}, "a+") as count:
    count.write("x")
    number = count.tell()
end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=10)
said = {said!r} | {{"Expiration": end.isoformat()}}
if {token!r}:
    said["SessionToken"] = {token!r} + str(number)
print(json.dumps(said))
""")
    return f"{sys.executable} {script}"


def test_a_session_token_that_was_replaced_meanwhile_is_asked_for_anew(
    server: BucketServer, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _configured(tmp_path, monkeypatch, f"credential_process = {_process(tmp_path, 'token-')}")
    tokens: list[str] = []

    def heard(request: Request) -> str:
        tokens.append(request.header("x-amz-security-token"))
        return "404 NoSuchKey"  # the server knows no tokens

    store = S3Store(bucket, "prefix", server.options())
    monkeypatch.setattr(server.door, "on_request", heard)
    for _ in range(2):
        with pytest.raises((ConfigError, OSError)):
            DeltaLog(store, KEY, "orders").newest()
    assert all(token.startswith("token-") for token in tokens)
    assert len(set(tokens)) > 1, tokens


def test_a_commit_goes_by_its_own_store_and_upon_the_version_that_was_read(
    server: BucketServer,
) -> None:
    with server.store() as store:
        log = new_log(store)
        read = newest(log)
        bucket, prefix = bucket_and_key(store, "")
        now = S3Store(bucket, prefix.rstrip("/"), server.options(region="eu-west-1"))
        later = DeltaLog(now, KEY, "orders")
        later.commit(read, [named(1)])
        assert names(log) == [named(1).name]
        with pytest.raises(LostRaceError):
            later.commit(read, [named(2)])
        now.close()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_ENDPOINT_URL", NOBODY),
        ("AWS_ENDPOINT_URL_S3", NOBODY),
        ("AWS_ENDPOINT", NOBODY),
        ("AWS_SESSION_TOKEN", "of another account"),
        ("AWS_SKIP_SIGNATURE", "true"),
        ("AWS_REGION", "eu-north-1"),
        ("AWS_ALLOW_HTTP", "false"),
        ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true"),
        ("AWS_CONDITIONAL_PUT", "disabled"),
    ],
)
def test_what_the_environment_says_to_others_does_not_count(
    server: BucketServer, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    with server.store() as store:
        log = new_log(store)
        access = store.access(KEY)
        if name == "AWS_SESSION_TOKEN":  # boto3 takes it with the keys beside it
            monkeypatch.setattr(store, "access", lambda _key: access)
        monkeypatch.setenv(name, value)
        commit(log, 1)
        assert names(log) == [named(1).name]


def test_an_endpoint_of_the_options_is_meant_whatever_the_variable_says(
    server: BucketServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = server.bucket()
    monkeypatch.setenv("AWS_ENDPOINT_URL", NOBODY)
    _assert_reached(S3Store(bucket, "prefix", server.options()))


@pytest.mark.parametrize(
    "prefix", ["odd prefix+ü/x=1&y?z#a*()!'[]", 'a:b@c,d;e$f~g|h"i<j>k^l`m{n}']
)
def test_a_prefix_with_odd_characters_is_the_same_place_for_both(
    server: BucketServer, prefix: str
) -> None:
    with server.store(prefix) as store:
        _assert_reached(store)


@pytest.mark.parametrize("name", ["a b#?x&ü'\"[]*~", "~x", "a:b@c$", "s3:", "%"])
def test_a_folder_with_an_odd_name_is_the_same_place_for_both(tmp_path: Path, name: str) -> None:
    log = new_log(FolderStore(tmp_path / name))
    commit(log, 1)
    assert names(log) == [named(1).name]
    assert (tmp_path / name / KEY / "_delta_log" / f"{1:020}.json").exists()


@pytest.mark.parametrize("name", ["100%20", "a%2Fb", "back\\slash", "line\nfeed"])
def test_a_name_that_means_another_place_to_others_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"opens no tables there.*STRATA_LAKE=0"):
        new_log(FolderStore(tmp_path / name))
    assert not list(tmp_path.iterdir())


def test_such_a_prefix_of_a_bucket_is_refused_too(server: BucketServer) -> None:
    with (
        server.store("odd%20prefix") as store,
        pytest.raises(ConfigError, match="opens no tables there"),
    ):
        new_log(store)
