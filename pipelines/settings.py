"""What can be configured, and the only place that reads the environment.

Every setting has a default, so that `strata run` works on a fresh machine; a command line option
beats the environment. The meaning and the unit of each are said here once.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from exporters.names import NameStyle
from transforms.errors import ConfigError

EMBEDDED_DATA = Path("strata-data")
"""Where the embedded run keeps its sample, warehouse and archive."""

EMBEDDED_SOURCE = str(EMBEDDED_DATA / "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where things lie and how they are made.

    `source` and `archive` are folders or `s3://bucket/prefix`; credentials, region and endpoint
    come from `AWS_*` variables, profiles or roles. `warehouse` is a folder, which also keeps the
    parts that wait to be published. `window` is the number of consecutive segments of a
    wider ZIP (0: none); `batch` the most segments that one Dagster run takes; `lag_blocks` how many
    blocks the archive may be behind the newest segment before the freshness check warns;
    `poll_seconds` the time between two looks at the source.
    """

    source: str = EMBEDDED_SOURCE
    warehouse: Path = EMBEDDED_DATA / "warehouse"
    archive: str = str(EMBEDDED_DATA / "archive")
    names: NameStyle = NameStyle.SPEC
    window: int = 0
    batch: int = 100
    lag_blocks: int = 5000
    poll_seconds: int = 60

    @property
    def embedded(self) -> bool:
        """Whether the source is the embedded sample, which may be made when it is missing."""
        return self.source == EMBEDDED_SOURCE


def read_settings(
    source: str | None = None,
    warehouse: str | None = None,
    archive: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """Settings from `STRATA_*` variables; the three places given here beat them.

    Raises `ConfigError` naming the variable that cannot be used.
    """
    read = _Reader(environment)
    source = source or read.text("SOURCE", EMBEDDED_SOURCE)
    data = default_data_folder(source)
    return Settings(
        source=source,
        warehouse=Path(warehouse or read.text("WAREHOUSE", str(data / "warehouse"))).expanduser(),
        archive=archive or read.text("ARCHIVE", str(data / "archive")),
        names=read.style("NAME_STYLE"),
        window=read.number("WINDOW", 0, least=0),
        batch=read.number("BATCH", 100),
        lag_blocks=read.number("LAG_BLOCKS", 5000),
        poll_seconds=read.number("POLL_SECONDS", 60),
    )


def dagster_home(environment: Mapping[str, str] = os.environ) -> Path:
    """Dagster's folder: `DAGSTER_HOME`, or `dagster_home` where we are."""
    return Path(environment.get("DAGSTER_HOME") or "dagster_home").expanduser().absolute()


def default_data_folder(source: str) -> Path:
    """Where a source's warehouse and archive lie unless something else is said.

    Each source has its own: two chains in one warehouse would be refused.
    """
    if source == EMBEDDED_SOURCE:
        return EMBEDDED_DATA
    place = source if "://" in source else str(Path(source).expanduser().resolve())
    digest = hashlib.sha256(place.encode()).hexdigest()[:8]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", place.rstrip("/").rpartition("/")[2])
    return EMBEDDED_DATA / f"{name}-{digest}"


@dataclass(frozen=True, slots=True)
class _Reader:
    environment: Mapping[str, str]

    def text(self, name: str, default: str = "") -> str:
        return self.environment.get(f"STRATA_{name}", "").strip() or default

    def number(self, name: str, default: int, least: int = 1) -> int:
        text = self.text(name, str(default))
        if not text.isdecimal() or int(text) < least:
            raise ConfigError(f"STRATA_{name} is {text!r}: give a whole number from {least} up")
        return int(text)

    def style(self, name: str) -> NameStyle:
        text = self.text(name, NameStyle.SPEC.value)
        styles = {style.value: style for style in NameStyle}
        if text not in styles:
            raise ConfigError(f"STRATA_{name} is {text!r}: give one of {', '.join(styles)}")
        return styles[text]
