"""Another library (deltalake) reaches what a store reaches, by what the store says as of now."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporters.lake.delta import DeltaLog
from tests.exporters.lake.log_kit import KEY, commit, named, names, new_log, newest
from tests.fault_proxy import Request
from tests.s3_kit import BucketServer, bucket_server
from tests.weed_kit import KEY as ACCESS_KEY
from tests.weed_kit import SECRET
from transforms.errors import ConfigError
from transforms.stores.folder import FolderStore
from transforms.stores.s3 import S3Store

NOBODY = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as running:
        yield running


@pytest.fixture
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `bucket_server` says in the environment is not there."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)


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
    server: BucketServer, no_variables: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = server.bucket()
    _configured(
        tmp_path,
        monkeypatch,
        f"aws_access_key_id = {ACCESS_KEY}",
        f"aws_secret_access_key = {SECRET}",
        f"endpoint_url = {server.url}",
    )
    _assert_reached(S3Store(bucket, "prefix"))


def test_a_process_says_the_keys(
    server: BucketServer, no_variables: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = server.bucket()
    _configured(tmp_path, monkeypatch, f"credential_process = {_process(tmp_path)}")
    _assert_reached(S3Store(bucket, "prefix", server.options()))


def _process(folder: Path, *, lasting: int = 7200) -> str:
    """A command that says good keys for so many seconds, with another session token each time."""
    script = folder / "keys.py"
    script.write_text(
        "import datetime, json, pathlib\n"
        f"count = pathlib.Path({str(folder / 'count')!r})\n"
        "number = int(count.read_text()) + 1 if count.exists() else 1\n"
        "count.write_text(str(number))\n"
        f"end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds={lasting})\n"
        "said = {'Version': 1, 'Expiration': end.isoformat()}\n"
        f"said |= {json.loads(json.dumps({'AccessKeyId': ACCESS_KEY, 'SecretAccessKey': SECRET}))}\n"
        + ("said['SessionToken'] = f'token-{number}'\n" if lasting < 900 else "")
        + "print(json.dumps(said))\n"
    )
    return f"{sys.executable} {script}"


def test_a_session_token_that_was_replaced_meanwhile_is_asked_for_anew(
    server: BucketServer, no_variables: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = server.bucket()
    # boto3 asks again for what lasts less than a quarter of an hour.
    _configured(tmp_path, monkeypatch, f"credential_process = {_process(tmp_path, lasting=600)}")
    tokens: list[tuple[str, str]] = []

    def heard(request: Request) -> str:
        tokens.append((request.method, request.header("x-amz-security-token")))
        return "404 NoSuchKey"  # the server knows no tokens

    log = DeltaLog(S3Store(bucket, "prefix", server.options()), KEY, "orders")
    with monkeypatch.context() as listening:
        listening.setattr(server.door, "on_request", heard)
        for _ in range(2):
            with pytest.raises((ConfigError, OSError)):
                log.snapshot()
    told = [token for _, token in tokens]
    assert all(token.startswith("token-") for token in told)
    assert len(set(told)) > 1, told


def test_a_commit_goes_by_the_keys_of_now_and_upon_the_version_that_was_read(
    server: BucketServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server.store() as store:
        log = new_log(store)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of yesterday")
        bucket, prefix = store.describe().removeprefix("s3://").rstrip("/").split("/", 1)
        monkeypatch.undo()
        read = newest(log)
        other = S3Store(bucket, prefix, server.options(region="eu-west-1"))
        late = DeltaLog(other, KEY, "orders")
        late.commit(read, [named(1)])
        assert names(log) == [named(1).name]
        other.close()


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
    with pytest.raises(ConfigError, match=r"cannot hold the lake.*STRATA_LAKE=0"):
        new_log(FolderStore(tmp_path / name))
    assert not list(tmp_path.iterdir())


def test_such_a_prefix_of_a_bucket_is_refused_too(server: BucketServer) -> None:
    with (
        server.store("odd%20prefix") as store,
        pytest.raises(ConfigError, match="cannot hold the lake"),
    ):
        new_log(store)
