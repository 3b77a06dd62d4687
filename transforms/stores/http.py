"""A folder that a web server shows, as a store that is only read.

What fails for now (no connection, 429, 5xx) is asked for again, later and later, or when the server
says (`Retry-After`). Proxies are those of the environment. What breaks off is an error.
"""

from __future__ import annotations

import errno
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote, unquote, urlsplit

import urllib3
from urllib3 import exceptions

from transforms.errors import ConfigError
from transforms.files import new_file
from transforms.objects import ObjectInfo
from transforms.stores.proxies import proxy_of
from transforms.stores.store import RefusedError, checked_key
from transforms.stores.streaming import Body

_CONNECTIONS = 32
_SILENT_SECONDS = 60.0  # that a server may be
_RETRIES = 5
_PIECE_BYTES = 256 * 1024
_GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_BLANKS = b"\xef\xbb\xbf \t\r\n"  # a byte order mark, too
# What is answered in place of something that may be there a moment later.
_LATER = (429, 500, 502, 503, 504)
_ADVICE: dict[int, str] = {
    HTTPStatus.NON_AUTHORITATIVE_INFORMATION: "a proxy has changed what the server sent: read it "
    "without the proxy (NO_PROXY)",
    HTTPStatus.NOT_MODIFIED: "a cache before the server answers a question that nobody asked: read "
    "it without the cache",
    HTTPStatus.BAD_REQUEST: "see whether http or https, host and port of the address are right",
}


class _Retry(urllib3.Retry):
    """Retries that skip a meaningless `Retry-After`, and end if a proxy wants a password."""

    def parse_retry_after(self, retry_after: str) -> float:
        """The seconds to wait; 0 lets the usual pause count."""
        with suppress(exceptions.InvalidHeader, ValueError, OverflowError):
            return super().parse_retry_after(retry_after)
        return 0.0

    def increment(self, *arguments: Any, **named: Any) -> _Retry:  # noqa: ANN401 - as they are
        """The retries that are left. Raises urllib3's errors if there are none."""
        error = named.get("error")
        if isinstance(error, exceptions.ProxyError) and _lacks_password(error):
            raise error
        return super().increment(*arguments, **named)


def _lacks_password(error: exceptions.HTTPError) -> bool:
    """Whether a proxy refused to connect for want of a password, which only its text tells."""
    reason = getattr(error, "original_error", None)
    return f" {HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:d} " in str(reason)


def _open_pool(scheme: str, host: str) -> urllib3.PoolManager:
    """Connections to a host, by the proxy that the environment names for it, if it does."""
    retries = _Retry(
        _RETRIES,
        connect=2,  # where nobody listens: that seldom passes
        status_forcelist=_LATER,
        backoff_factor=0.5,
        backoff_max=60,
        retry_after_max=60,
        raise_on_status=False,
    )
    options: dict[str, Any] = {
        "retries": retries,
        "timeout": _SILENT_SECONDS,
        "maxsize": _CONNECTIONS,
        "ssl_context": ssl.create_default_context(),
    }
    proxy = proxy_of(scheme, host)
    if proxy is None:
        return urllib3.PoolManager(**options)
    headers = urllib3.make_headers(proxy_basic_auth=proxy.auth and unquote(proxy.auth))
    return urllib3.ProxyManager(proxy._replace(auth=None).url, proxy_headers=headers, **options)


@contextmanager
def _plain_errors(place: str) -> Iterator[None]:
    """Turn urllib3's errors about `place`, an address, into `ConfigError` or `ConnectionError`."""
    try:
        yield
    except exceptions.HTTPError as error:
        reason = getattr(error, "reason", None) or error
        if _lacks_password(error):
            raise _without_password(place) from error
        if isinstance(reason, exceptions.SSLError):
            raise ConfigError(
                f"{place}: the server's certificate or its TLS is not accepted ({reason}): correct "
                "the address; where you trust a certificate of your own, name its file in "
                "SSL_CERT_FILE"
            ) from error
        raise ConnectionError(
            f"no whole answer for {place} ({reason}): check the address, the network and the proxy "
            "(HTTPS_PROXY, HTTP_PROXY, NO_PROXY), then run it again"
        ) from error


def _without_password(place: str) -> ConfigError:
    scheme = place.partition(":")[0].upper()
    return ConfigError(
        f"the proxy for {place} wants a user and a password, or refuses those it got: write "
        f"{scheme}_PROXY=http://<user>:<password>@<host>:<port>"
    )


class HttpStore:
    """What lies below `url`. Safe among threads."""

    def __init__(self, url: str) -> None:
        """Raises `ConfigError` for an address that is none; nothing is asked for yet."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"{url!r} names no web server: write https://<host>/<path>")
        if parts.query or parts.fragment:
            raise ConfigError(f"{url!r} has a ? or # in it: give the address of a folder")
        host = parts.netloc.rpartition("@")[2]
        self._url = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
        account = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        self._headers = urllib3.make_headers(
            basic_auth=account if parts.username else None, user_agent="strata-fetch"
        )
        self._headers["Accept-Encoding"] = "identity"  # bytes are wanted as they lie
        self._pool = _open_pool(parts.scheme, host)

    def open(self, key: str, start: int = 0) -> Body:
        """The bytes of an object from `start`, or from 0 where the server gives no ranges.

        Raises `FileNotFoundError`, `RefusedError`, `ConnectionError`. Pieces raise
        `ConnectionError` where they end before they should.
        """
        headers = {"Range": f"bytes={start}-"} if start else {}
        answer = self._asked("GET", key, headers)
        size = answer.headers.get("Content-Length", "")
        if "Content-Range" in answer.headers:
            size = answer.headers["Content-Range"].rpartition("/")[2]
        total = int(size) if size.isdecimal() else None
        if answer.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            answer.close()
            return Body(start, total, iter(()))
        self._check(answer, key)
        begin = start if answer.status == HTTPStatus.PARTIAL_CONTENT else 0
        pieces = self._pieces(answer, key)
        if begin or key.endswith(".html"):
            return Body(begin, total, pieces, answer.close)
        first = next(pieces, b"")
        # Some hosts send a page, or redirect to it, in place of a file that they do not have.
        if first.lstrip(_BLANKS).startswith(b"<"):
            answer.close()
            raise self._absent(key)
        return Body(begin, total, chain((first,), pieces), answer.close)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Raises `ConfigError`: a web server says what a document is, not what there is."""
        raise ConfigError(f"{self.describe(prefix)} cannot be listed: web servers give no lists")

    def read(
        self,
        key: str,
        start: int = 0,
        length: int | None = None,
        *,
        version: str | None = None,  # noqa: ARG002 - it is one answer, and so of one version
    ) -> bytes:
        """Return `length` bytes from `start`; past the end there are none."""
        with closing(self.open(key, start)) as body:
            data = b"".join(body.pieces)[start - body.start :]
        return data if length is None else data[:length]

    def fetch(self, key: str, path: Path) -> None:
        """Copy the whole object to `path`, which stays as it was if that fails."""
        with new_file(path, durable=False) as file, closing(self.open(key)) as body:
            file.writelines(body.pieces)

    def describe(self, key: str = "") -> str:
        """The address, without what says who asks."""
        return f"{self._url}/{quote(key)}" if key else self._url

    def path(self, key: str) -> None:
        """None: it lies on another machine."""
        checked_key(key)

    def close(self) -> None:
        """Close the connections that are open."""
        self._pool.clear()

    def put_if_absent(self, *_arguments: object, **_options: object) -> NoReturn:
        """Raises `ConfigError`: what a web server shows is only read."""
        raise ConfigError(f"{self._url} is only read: give a folder or s3://<bucket>")

    # Nothing is replaced, compared or removed by its age here either.
    put_if_match = delete = get = head = now = put_if_absent

    def _pieces(self, answer: urllib3.BaseHTTPResponse, key: str) -> Iterator[bytes]:
        with _plain_errors(self.describe(key)):
            yield from answer.stream(_PIECE_BYTES, decode_content=False)

    def _asked(self, method: str, key: str, headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
        with _plain_errors(self.describe(key)):
            return self._pool.request(
                method,
                f"{self._url}/{quote(checked_key(key))}",
                headers={**self._headers, **headers},
                preload_content=False,
                decode_content=False,
            )

    def _absent(self, key: str) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, "There is no such object", self.describe(key))

    def _check(self, answer: urllib3.BaseHTTPResponse, key: str) -> None:
        status, place = answer.status, self.describe(key)
        if status in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            return
        answer.close()
        reply = f"{status} {answer.reason or ''}".strip()
        if status in _GONE:
            raise self._absent(key)
        if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
            raise _without_password(place)
        if status in _REFUSED:
            raise RefusedError(
                f"{place} is refused ({reply}): give an address that may be read, with "
                "https://<user>:<password>@<host> if it takes them"
            )
        if status in _LATER:
            raise ConnectionError(f"{place} is not answered for now ({reply}): try again later")
        advice = _ADVICE.get(status, "see whether the address is right")
        raise OSError(errno.EPROTO, f"{place} is answered with {reply}: {advice}")
