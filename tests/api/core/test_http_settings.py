from __future__ import annotations

import pytest

from api.core.server_settings import Listen, ServeSettings, read_settings
from exporters.locations import read_locations
from pipelines.settings import Settings
from tests.cases import each_of
from transforms.errors import ConfigError


@each_of("source", [None, "/data/segments/", "s3://bucket/prefix", "relative"])
def test_the_server_looks_where_the_pipeline_puts_things(source: str | None) -> None:
    environment = {} if source is None else {"STRATA_SOURCE": source}
    pipeline = read_locations(Settings, environment)
    server = read_settings(environment).locations
    assert (server.warehouse, server.archive) == (pipeline.warehouse, pipeline.archive)
    assert server.source == pipeline.source


def test_what_is_given_beats_the_environment_which_beats_the_default() -> None:
    environment = {"STRATA_API_PORT": "80", "STRATA_API_HOST": "::1", "STRATA_WAREHOUSE": "/w"}
    found = read_settings(environment, port=0, host=None, warehouse="/v")
    assert found.listen == Listen(host="::1", port=0)
    assert found.locations.warehouse == "/v"


@each_of(
    ("listen", "rate"),
    [
        ({}, 0.0),
        ({"STRATA_API_HOST": "localhost"}, 0.0),
        ({"STRATA_API_HOST": "0.0.0.0"}, 20.0),
        ({"STRATA_API_HOST": "example.org"}, 20.0),
        ({"STRATA_API_HOST": "0.0.0.0", "STRATA_API_RATE": "0"}, 0.0),
        ({"STRATA_API_RATE": "2.5"}, 2.5),
    ],
)
def test_the_rate_is_limited_beyond_loopback_unless_it_is_set(
    listen: dict[str, str], rate: float
) -> None:
    assert read_settings(listen).access.rate == rate


@each_of(
    ("name", "value"),
    [
        ("API_PORT", "http"),
        ("API_WORKERS", "0"),
        ("API_THREADS", "-1"),
        ("API_QUERY_SECONDS", "soon"),
        ("API_QUEUE", "1.5"),
        ("API_REQUEST_SECONDS", "0"),
        ("NAME_STYLE", "fancy"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"STRATA_{name} is '{value}'"):
        read_settings({f"STRATA_{name}": value})


@pytest.mark.parametrize("token", ["pässword", "two words", "tab\tbed", "\x7f"])
def test_a_token_that_no_client_can_send_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ConfigError, match="STRATA_API_TOKENS has a token that") as raised:
        read_settings({"STRATA_API_TOKENS": f"one,{token}x"})
    assert token not in str(raised.value)


def test_tokens_are_a_list_that_no_repr_shows() -> None:
    found = read_settings({"STRATA_API_TOKENS": "one, two,"})
    assert found.access.tokens == ("one", "two")
    assert "two" not in repr(found)
    assert ServeSettings(found.locations).access.rate == 0.0
