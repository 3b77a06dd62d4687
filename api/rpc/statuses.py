"""An error on the wire: code, message, and the detail as `google.rpc.Status` (spec 7.1)."""

from __future__ import annotations

from grpc import StatusCode

from api.core.api_errors import ApiError, Code
from api.core.descriptors import message_class
from api.rpc.writers import encoded

_DETAILS = "grpc-status-details-bin"
_TYPE_URL = "type.googleapis.com/vega.ErrorDetail"
# Clients refuse metadata beyond 8 KiB altogether, and a third is added on the way.
_MOST_TEXT = 1000

_STATUS = message_class("google.rpc.Status")
_DETAIL = message_class("vega.ErrorDetail")
_CODES = {code.value[0]: code for code in StatusCode}


def status_code(code: Code) -> StatusCode:
    """The same code as gRPC's library calls it."""
    return _CODES[code]


def shown(text: str) -> str:
    """A text of an error, of a length that metadata may have, and of any characters."""
    short = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."
    return short.encode("utf-8", "replace").decode()


def trailers(error: ApiError) -> tuple[tuple[str, bytes], ...]:
    """The metadata after an error: its detail, where there is one."""
    if error.detail is None:
        return ()
    detail = encoded(
        _DETAIL,
        {
            "code": error.detail.code,
            "message": shown(error.detail.message),
            "inner": shown(error.detail.inner),
        },
    )
    status = {
        "code": int(error.code),
        "message": shown(error.message),
        "details": [{"type_url": _TYPE_URL, "value": detail}],
    }
    return ((_DETAILS, encoded(_STATUS, status)),)
