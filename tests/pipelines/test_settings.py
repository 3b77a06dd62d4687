from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import dagster as dg
import pytest

from exporters.locations import read_locations
from exporters.zip_names import NameStyle
from pipelines.assembly import definitions
from pipelines.settings import Settings
from tests.cases import each_of
from transforms.errors import ConfigError


def test_nothing_set_means_the_embedded_sample() -> None:
    settings = read_locations(Settings, {})

    assert settings == Settings()
    assert settings.embedded
    assert settings.warehouse == "strata-data/warehouse"


def test_variables_are_read_and_options_beat_them() -> None:
    environment = {
        "STRATA_SOURCE": "s3://bucket/segments",
        "STRATA_WAREHOUSE": "/data/warehouse",
        "STRATA_ARCHIVE": "s3://bucket/exports",
        "STRATA_NAME_STYLE": "reference",
        "STRATA_BATCH": "50",
        "STRATA_POLL_SECONDS": "5",
        "STRATA_NODE": "http://127.0.0.1:3008",
    }

    assert read_locations(Settings, environment, archive="/exports") == Settings(
        source="s3://bucket/segments",
        warehouse="/data/warehouse",
        archive="/exports",
        name_style=NameStyle.REFERENCE,
        batch=50,
        poll_seconds=5,
        node="http://127.0.0.1:3008",
    )


@each_of(
    ("variable", "text"),
    [
        ("BATCH", "0"),
        ("BATCH", "-1"),
        ("BATCH", "many"),
        ("BATCH", "1.5"),
        ("RETENTION_BLOCKS", "²"),
        ("NAME_STYLE", "padded"),
        ("POLL_SECONDS", "0"),
        ("PUBLIC_URL", "example.org"),
        ("PUBLIC_URL", "https://example.org/a b"),
        ("NODE", "127.0.0.1:3008"),
        ("NODE", "file:///etc/passwd"),
        ("RETENTION_BLOCKS", "-1"),
    ],
)
def test_a_setting_that_cannot_be_used_names_its_variable(variable: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"STRATA_{variable} is '{text}'"):
        read_locations(Settings, {f"STRATA_{variable}": text})


def test_every_setting_reaches_the_steps_of_a_run(tmp_path: Path) -> None:
    others = Settings(
        source="a",
        warehouse="b",
        cache=tmp_path,
        cache_bytes=1,
        memory_mb=700,
        archive="c",
        name_style=NameStyle.REFERENCE,
        single_writer=True,
        batch=4,
        poll_seconds=6,
        require_id_chain=True,
        lake=False,
        state_seconds=9,
        free_mb=9,
        verify_days=9,
        metrics=Path("metrics"),
        signing_key=tmp_path / "strata.key",
        public_url="https://example.org/archive",
        node="http://127.0.0.1:3008",
        node_socket=tmp_path / "node.sock",
        retention_blocks=9,
    )
    defaults = Settings()
    assert all(getattr(others, f.name) != getattr(defaults, f.name) for f in fields(Settings))
    for settings in (others, defaults):
        resource = definitions(settings).get_repository_def().get_top_level_resources()["site"]
        with dg.build_resources({"site": resource}) as resources:
            assert resources.site.settings == settings
