"""What an operation of the read API is: a path, a method of gRPC, parameters, a query, a message.

`api.operations` has all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Generic, TypeVar

from api.core.descriptors import Message, method_messages
from api.core.open_snapshots import Reading
from api.core.workers import Headers
from api.queries.pagination import Page, Record

_Request = TypeVar("_Request")
Write = Callable[[Message, Record], bytes]
"""How one shell writes a message."""


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

    `metadata` says under which name gRPC takes what its message has no field for; `field` is that
    of the request, where it has another name.
    """

    name: str
    kind: Kind
    meaning: str
    required: bool = False
    in_path: bool = False
    default: bool | None = None
    metadata: str = ""
    field: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters below one name (`pagination.first`); `message` is what the network calls them."""

    name: str
    message: str
    make: Callable[..., object]
    parameters: tuple[Parameter, ...]


Parameters = tuple[Parameter | Group, ...]


def _never(_request: object) -> bool:
    return False


def _no_headers(_reading: Reading, _request: object) -> Headers:
    return ()


@dataclass(frozen=True, slots=True)
class Operation(Generic[_Request]):
    """One operation; `name` is that in the log and the counters.

    `path` is that of HTTP, empty where it has none; `method` that of gRPC, without the slash before
    it. A record in the place of `query` is always the answer, whatever is loaded, or nothing; None:
    the answer comes in pieces. What `is_kept` is written once for each snapshot where no
    parameter is given. `is_short` says which requests read a few pages of index files. `id` is the
    description's name, where that is not the method's.
    """

    name: str
    path: str
    method: str
    title: str
    request: Callable[..., _Request]
    query: Callable[[Reading, _Request], Page | Record] | Record | None
    parameters: Parameters = ()
    headers: Callable[[Reading, _Request], Headers] = _no_headers
    is_kept: bool = False
    is_short: Callable[[_Request], bool] = _never
    id: str = ""

    @property
    def answered(self) -> Message:
        """The message that it answers with."""
        return method_messages(self.method)[1]

    def request_of(self, values: Mapping[str, Any]) -> _Request:
        """The request with the values that were given, by name; those of a group are a mapping."""
        fields = {}
        for parameter in self.parameters:
            if parameter.name in values:
                value = values[parameter.name]
                if isinstance(parameter, Group):
                    fields[parameter.name] = parameter.make(**value)
                else:
                    fields[parameter.field or parameter.name] = value
        return self.request(**fields)

    def short(self, request: _Request) -> str:
        """The name, where the request is short; see `QueryRunner.run`."""
        return self.name if self.is_short(request) else ""

    def fixed(self, write: Write) -> bytes | None:
        """The answer that is always the same, as a shell writes it; None where there is none."""
        return write(self.answered, self.query) if isinstance(self.query, tuple) else None

    def answer(self, reading: Reading, request: _Request, write: Write) -> tuple[bytes, Headers]:
        """The answer to a request, as a shell writes it, and its headers."""
        headers = self.headers(reading, request)
        if self.is_kept and request == self.request():
            # What most ask for are megabytes of segments.
            kept = (self.method, write)
            body = reading.snapshot.once(kept, lambda _: self._written(reading, request, write))
            return body, headers
        return self._written(reading, request, write), headers

    def _written(self, reading: Reading, request: _Request, write: Write) -> bytes:
        assert callable(self.query)
        answer = self.query(reading, request)
        return write(self.answered, (answer.record,) if isinstance(answer, Page) else answer)
