"""The parameters of requests, each declared once: as a field of the request that it becomes.

REST, gRPC and the description read them from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum, auto
from functools import cache
from typing import Any, TypeVar

_Request = TypeVar("_Request")


class Kind(Enum):
    """The types of parameters: how a text is read, and what the description says of it."""

    TEXT = auto()
    HEX = auto()
    """A text as well: bytes in hex, or the name of an id."""
    HEX64 = auto()
    """A text as well: 64 hex digits."""
    PARTY = auto()
    """A text as well: 64 hex digits, `network`, or nothing for any."""
    COUNT = auto()
    """32 bits: the size of a page."""
    INT64 = auto()
    TRUTH = auto()
    TABLE = auto()
    """A table's number, or its name after `TABLE_`."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One value, given once at most. Its name has underscores, or is in camelCase over HTTP.

    `metadata` says under which name gRPC takes what its message has no field for.
    """

    name: str
    kind: Kind
    meaning: str
    default: object = None
    required: bool = False
    in_path: bool = False
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters below one name (`pagination.first`), with what makes the object of them."""

    name: str
    make: Callable[..., Any]
    parameters: tuple[Parameter, ...]

    @property
    def message(self) -> str:
        """What the network calls it."""
        return f"datanode.api.v2.{self.make.__name__}"


Parameters = tuple[Parameter | Group, ...]


def parameter(kind: Kind, meaning: str, default: object = None, **others: object) -> Any:  # noqa: ANN401 - as `dataclasses.field`
    """The field of a request that a parameter becomes; `others` are further fields of that."""
    return field(default=default, metadata={"kind": kind, "meaning": meaning, **others})


@cache
def parameters_of(request: type) -> Parameters:
    """The parameters of a kind of requests; a field that Python has a word for ends in `_`."""
    parameters: list[Parameter | Group] = []
    for each in fields(request):
        name, make = each.name.removesuffix("_"), each.default_factory
        if make is MISSING:
            parameters.append(Parameter(name, default=each.default, **each.metadata))
        else:
            parameters.append(Group(name, make, parameters_of(make)))  # type: ignore[arg-type]
    return tuple(parameters)


def request_of(request: type[_Request], values: Mapping[str, Any]) -> _Request:
    """The request with the values that were given, by name; those of a group are a mapping."""
    given = {}
    for each in fields(request):  # type: ignore[arg-type]
        name = each.name.removesuffix("_")
        if name in values:
            make = each.default_factory
            given[each.name] = values[name] if make is MISSING else make(**values[name])
    return request(**given)
