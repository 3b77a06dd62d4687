"""The errors of the read API, and the one table that says how each is answered (spec 7.1).

    ApiError                     has a gRPC code; the table gives the HTTP status
    ├── MalformedParameterError  a parameter is not of its type: 3
    ├── InvalidArgumentError     a value cannot be right: 3
    ├── NotFoundError            the one thing asked for is not there: 5
    ├── FailedError              the request cannot be answered as it is: 13
    ├── UnavailableError         nothing is loaded, or the server is too busy: 14
    ├── RefusedError             it is not taken, by the code that it is given
    ├── CancelledError           nobody waits for the answer any more: 1
    └── DeadlineError            it took too long: 4

Bodies and texts are those of the network's data node, so that clients that match them still work.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Self

from transforms.errors import StrataError


class Code(IntEnum):
    """The gRPC status codes that are answered, each with the status of HTTP."""

    status: int

    def __new__(cls, number: int, status: int) -> Self:
        """Make the code of a number."""
        code = int.__new__(cls, number)
        code._value_ = number
        code.status = status
        return code

    OK = (0, 200)
    CANCELLED = (1, 408)
    INVALID_ARGUMENT = (3, 400)
    DEADLINE_EXCEEDED = (4, 504)
    NOT_FOUND = (5, 404)
    PERMISSION_DENIED = (7, 403)
    RESOURCE_EXHAUSTED = (8, 429)
    FAILED_PRECONDITION = (9, 400)
    ABORTED = (10, 409)
    OUT_OF_RANGE = (11, 400)
    UNIMPLEMENTED = (12, 501)
    INTERNAL = (13, 500)
    UNAVAILABLE = (14, 503)
    UNAUTHENTICATED = (16, 401)


class Reason(Enum):
    """What went wrong, by the network's own code and words; 10000 where it has no code."""

    INVALID_ORDER_ID = (10000, "invalid orderID parameter")
    INVALID_PARTY_ID = (10000, "invalid party id")
    INVALID_WITHDRAWAL_ID = (10000, "invalid withdrawal ID")
    INVALID_DATE_RANGE = (10000, "invalid date range")
    NO_TABLE = (10000, "no table name for network history supplied")
    NO_SEGMENTS = (10000, "failed to get contiguous history segments")
    UNEXPECTED = (10000, "unexpected failure")
    MISSING_PARTY_ID = (10006, "empty or missing party ID")
    STREAM_FAILED = (10010, "internal stream failure")
    MISSING_ORDER_ID = (10012, "missing orderID parameter")
    MISSING_RESOURCE_ID = (10025, "missing resource ID")
    INVALID_PAGINATION = (10028, "invalid pagination")
    MISSING_WITHDRAWAL_ID = (80003, "missing withdrawal ID")
    WITHDRAWAL = (150001, "failed to get withdrawal")
    NODE_SIGNATURES = (180001, "failed to get notary for resource ID")
    ORACLE_DATA = (190003, "failed retrieve data for oracle data")
    LIQUIDITY_PROVISIONS = (280001, "failed to get liquidity provision")
    LAST_BLOCK = (360001, "failed to get last block")

    def __init__(self, vega_code: int, text: str) -> None:
        self.vega_code = vega_code
        self.text = text


@dataclass(frozen=True, slots=True)
class Detail:
    """The `vega.ErrorDetail` of an error: the network's code and words, and what lies behind."""

    code: int
    message: str
    inner: str


class ApiError(StrataError):
    """An error that is answered. `message` is for the client, `detail` where there is more."""

    code = Code.INTERNAL

    def __init__(self, message: str, detail: Detail | None = None) -> None:
        super().__init__(f"{message}: {detail.message}: {detail.inner}" if detail else message)
        self.message = message
        self.detail = detail

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.code.status


class _ReasonedError(ApiError):
    """An error whose message is only its code's name; the reason is the detail."""

    title = ""

    def __init__(self, reason: Reason, inner: str = "") -> None:
        super().__init__(f"{self.title} error", Detail(reason.vega_code, reason.text, inner))
        self.reason = reason


class MalformedParameterError(ApiError):
    """A parameter's text is not of the parameter's type."""

    code = Code.INVALID_ARGUMENT


class RefusedError(ApiError):
    """A request that is not taken, or not at this time; the code says why."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


class InvalidArgumentError(_ReasonedError):
    """A parameter's value cannot be right."""

    code = Code.INVALID_ARGUMENT
    title = "InvalidArgument"


class NotFoundError(_ReasonedError):
    """The one record asked for is not there; a list of none is an empty page instead."""

    code = Code.NOT_FOUND
    title = "NotFound"


class FailedError(_ReasonedError):
    """The request cannot be answered as it is, or something of ours is broken."""

    title = "Internal"


class UnavailableError(ApiError):
    """Nothing is loaded yet, or the server has too much to do: trying again later helps."""

    code = Code.UNAVAILABLE


class CancelledError(ApiError):
    """Nobody waits for the answer any more."""

    code = Code.CANCELLED

    def __init__(self) -> None:
        super().__init__("context canceled")


class DeadlineError(ApiError):
    """The answer took longer than it may."""

    code = Code.DEADLINE_EXCEEDED

    def __init__(self) -> None:
        super().__init__("context deadline exceeded")
