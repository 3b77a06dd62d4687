"""Where things lie, and the only place that reads the environment, for both shells.

A group of settings is a dataclass; the variable of a field is a prefix and the field's name in
capitals. What a command line option gives beats the variable, which beats the default. A variable
that is blank is not set.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

from exporters.zip_names import NameStyle
from transforms.errors import ConfigError
from transforms.memory import MEMORY_MB, rendering_text
from transforms.stores.store import S3Options
from transforms.warehouse.files.local_files import CACHES, MOST_CACHE_BYTES

EMBEDDED_DATA = Path("strata-data")
"""Where the embedded run keeps its sample, warehouse and archive."""

EMBEDDED_SOURCE = str(EMBEDDED_DATA / "source")


@dataclass(frozen=True, slots=True)
class Kind:
    """How a setting is made of its text, or of an option's value, and what to give instead.

    `parse` raises `ValueError` for what it cannot be made of.
    """

    parse: Callable[[Any], object]
    description: str = ""


def matching(pattern: str, clean: Callable[[str], str] = str) -> Callable[[str], str]:
    """What takes only texts that match a pattern as a whole, and cleans them."""

    def parse(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(text)
        return clean(text)

    return parse


def _number(
    kind: type[int | float], is_right: Callable[[float], bool]
) -> Callable[[str | float], float]:
    def parse(text: str | float) -> float:
        number = kind(text)
        if not is_right(number):
            raise ValueError(text)
        return number

    return parse


def _switch(flag: str | bool) -> bool:
    switches: dict[str | bool, bool] = {"0": False, "1": True, False: False, True: True}
    if flag not in switches:
        raise ValueError(flag)
    return switches[flag]


def _expanded(path: str | Path) -> Path:
    return Path(path).expanduser()


Positive = Annotated[int, Kind(_number(int, lambda n: n >= 1), "a whole number from 1 up")]
Natural = Annotated[int, Kind(_number(int, lambda n: n >= 0), "a whole number from 0 up")]
Amount = Annotated[float, Kind(_number(float, lambda n: 0 <= n < inf), "a number from 0 up")]
Seconds = Annotated[
    float, Kind(_number(float, lambda n: 0 < n < inf), "a number of seconds above 0")
]
Switch = Annotated[bool, Kind(_switch, "1 (on) or 0 (off)")]
_STYLES = ", ".join(style.value for style in NameStyle)
Style = Annotated[NameStyle, Kind(NameStyle, f"one of {_STYLES}")]
PublicUrl = Annotated[
    str,
    # DuckDB takes some characters for patterns, and cuts an address at others.
    Kind(
        matching(r"((https?|s3)://[A-Za-z0-9._~:/%@+-]+)?", lambda url: url.rstrip("/")),
        "the address of the archive, such as https://example.org/archive",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Locations:
    """Where everything lies: each a folder or an `s3://` address.

    Credentials, region and endpoint of a bucket come from `AWS_*` variables, profiles or roles. An
    empty `source` means that nobody asks for it. `cache` is this machine's folder for the
    warehouse, with the parts that wait to be published (None: that of the warehouse, or for a
    bucket one below the user's own); `cache_bytes` bounds what it holds of a bucket's files.
    `memory_mb` is what each DuckDB that works on these may hold in memory, in MB: to load, merge,
    render or check (a segment that takes more is quarantined); queries have bounds of their own.
    `single_writer` is the operator's word that never more than one process writes, for buckets
    whose service ignores conditions. `public_url` is the address at which anybody reads the archive
    (empty: none, and no `strata.duckdb` is published).
    """

    source: str = EMBEDDED_SOURCE
    warehouse: str = str(EMBEDDED_DATA / "warehouse")
    archive: str = str(EMBEDDED_DATA / "archive")
    cache: Annotated[Path | None, Kind(_expanded)] = None
    cache_bytes: Natural = MOST_CACHE_BYTES
    memory_mb: Positive = MEMORY_MB
    name_style: Style = NameStyle.SPEC
    single_writer: Switch = False
    public_url: PublicUrl = ""

    @property
    def memory_limit(self) -> str:
        """The bound of memory in DuckDB's notation."""
        return rendering_text(self.memory_mb)

    @property
    def store_options(self) -> S3Options:
        """How buckets are used: this machine keeps which of their services it tried."""
        return S3Options(facts=(self.cache or CACHES) / "stores", single_writer=self.single_writer)


_NOTHING: Mapping[str, Any] = {}
_TEXT = Kind(str)
_Group = TypeVar("_Group")
_Located = TypeVar("_Located", bound=Locations)


def read_group(
    group: type[_Group],
    prefix: str,
    environment: Mapping[str, str] | None = None,
    *,
    overrides: Mapping[str, Any] = _NOTHING,
    defaults: Mapping[str, Any] = _NOTHING,
) -> _Group:
    """A group of settings: `overrides` beat the environment, `defaults` replace its own.

    A None in `overrides` was not given. Raises `ConfigError` naming the variable that cannot be
    used.
    """
    environ = os.environ if environment is None else environment
    variables = {field.name: f"{prefix}{field.name.upper()}" for field in fields(group)}  # type: ignore[arg-type]
    texts = {name: environ.get(variable, "").strip() for name, variable in variables.items()}
    given = {
        **{name: text for name, text in texts.items() if text},
        **{name: value for name, value in overrides.items() if value is not None},
    }
    kinds = _kinds(group)
    values: dict[str, Any] = dict(defaults)
    for name, variable in variables.items():
        if name not in given:
            continue
        kind = kinds.get(name, _TEXT)
        try:
            values[name] = kind.parse(given[name])
        except ValueError:
            description = f"{variable} is {given[name]!r}: give {kind.description}"
            raise ConfigError(description) from None
    return group(**values)


def _kinds(group: type) -> dict[str, Kind]:
    """The kinds of a group's fields, by their names; a field without one is a text."""
    hints = get_type_hints(group, include_extras=True)
    return {
        name: mark
        for name, hint in hints.items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, Kind)
    }


def read_locations(
    group: type[_Located], environment: Mapping[str, str] | None = None, **overrides: str | None
) -> _Located:
    """Locations, with what else the group has, from `STRATA_*` variables; see `read_group`.

    An empty text in `overrides` was not given.
    """
    chosen = {name: place or None for name, place in overrides.items()}
    source = read_group(Locations, "STRATA_", environment, overrides=chosen).source
    data = data_folder(source)
    defaults = {"warehouse": str(data / "warehouse"), "archive": str(data / "archive")}
    return read_group(group, "STRATA_", environment, overrides=chosen, defaults=defaults)


def data_folder(source: str) -> Path:
    """Where a source's warehouse and archive lie unless something else is said.

    Each source has its own: two chains in one warehouse would be refused.
    """
    if source == EMBEDDED_SOURCE:
        return EMBEDDED_DATA
    place = source if "://" in source else str(Path(source).expanduser().resolve())
    digest = hashlib.sha256(os.fsencode(place)).hexdigest()[:8]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", place.rstrip("/").rpartition("/")[2])
    return EMBEDDED_DATA / f"{name}-{digest}"


def dagster_home(environment: Mapping[str, str] | None = None) -> Path:
    """Dagster's folder: `DAGSTER_HOME`, or `dagster_home` where we are."""
    environ = os.environ if environment is None else environment
    return Path(environ.get("DAGSTER_HOME") or "dagster_home").expanduser().absolute()


def signing_password(environment: Mapping[str, str] | None = None) -> str:
    """What the signing key is locked with: `STRATA_SIGNING_PASSWORD`.

    It is no setting, as settings are shown in Dagster's web interface.
    """
    environ = os.environ if environment is None else environment
    return environ.get("STRATA_SIGNING_PASSWORD", "")


def set_for_library(variable: str, value: str, *, unless_set: bool = False) -> None:
    """Set a variable that a library reads by itself, for this process and those it starts."""
    if not (unless_set and variable in os.environ):
        os.environ[variable] = value
