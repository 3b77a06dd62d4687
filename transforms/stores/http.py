"""A folder that a web server shows, as a store that is only read.

What fails for now (no connection, 429, 5xx) is asked for again, later and later, or when the server
says (`Retry-After`). Proxies are those of the environment.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote, urlsplit

import urllib3

from transforms.errors import BusyError, ConfigError
from transforms.files import new_file
from transforms.objects import ObjectInfo
from transforms.stores.http_client import LATER, headers_of, open_pool, plain_errors
from transforms.stores.store import checked_key
from transforms.stores.streaming import Body

_PIECE_BYTES = 256 * 1024
_READINGS = 4
_GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED)


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
        self._headers = headers_of(url)
        self._pool = open_pool(parts.scheme, host)

    def open(self, key: str, start: int = 0) -> Body:
        """The bytes of an object from `start`, or from 0 where the server gives no ranges.

        Raises `FileNotFoundError`, `ConfigError` (refused), `ConnectionError`. Pieces raise
        `ConnectionError` where they end before they should.
        """
        return self._body(key, start)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Raises `ConfigError`: a web server says what a document is, not what there is."""
        raise ConfigError(f"{self.describe(prefix)} cannot be listed: web servers give no lists")

    def head(self, key: str) -> ObjectInfo | None:
        """Describe one object, or None where it is absent."""
        answer = self._asked("HEAD", key, {})
        answer.close()
        if answer.status in _GONE:
            return None
        self._check(answer, key)
        version = answer.headers.get("ETag", "") or answer.headers.get("Last-Modified", "")
        return ObjectInfo(key, _length(answer) or 0, version)

    def read(
        self, key: str, start: int = 0, length: int | None = None, *, version: str | None = None
    ) -> bytes:
        """Return `length` bytes from `start`; past the end there are none."""
        if length == 0:
            return b""
        for retries in reversed(range(_READINGS)):
            body = self._body(key, start, length, version)
            try:
                with closing(body):
                    data = b"".join(body.pieces)[start - body.start :]
            except (
                ConnectionError
            ):  # only what has not begun to arrive is asked for again by itself
                if not retries:
                    raise
            else:
                return data if length is None else data[:length]
        raise AssertionError

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

    # Nothing is replaced, proven again or removed by its age here either.
    put_if_match = delete = get = digest = now = put_if_absent

    def _body(
        self, key: str, start: int, length: int | None = None, version: str | None = None
    ) -> Body:
        headers = {}
        if start or length is not None:
            end = "" if length is None else start + length - 1
            headers["Range"] = f"bytes={start}-{end}"
        if version and version.startswith('"'):  # only a strong tag may be compared with
            headers["If-Match"] = version
        answer = self._asked("GET", key, headers)
        if answer.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            answer.close()
            return Body(start, _total(answer), iter(()))
        self._check(answer, key)
        begins, size = 0, _length(answer)
        if answer.status == HTTPStatus.PARTIAL_CONTENT:
            begins, size = _begin(answer), _total(answer)
            if begins != start:
                answer.close()
                raise ConnectionError(
                    f"{self.describe(key)}: bytes from {start} on were asked for, and those from "
                    f"{begins} arrived: see what stands between"
                )
        return Body(begins, size, self._pieces(answer, key), answer.close)

    def _pieces(self, answer: urllib3.BaseHTTPResponse, key: str) -> Iterator[bytes]:
        with plain_errors(self.describe(key)):
            yield from answer.stream(_PIECE_BYTES, decode_content=False)

    def _asked(self, method: str, key: str, headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
        with plain_errors(self.describe(key)):
            return self._pool.request(
                method,
                f"{self._url}/{quote(checked_key(key))}",
                headers={**self._headers, **headers},
                preload_content=False,
                decode_content=False,
            )

    def _check(self, answer: urllib3.BaseHTTPResponse, key: str) -> None:
        status, place = answer.status, self.describe(key)
        if status in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            return
        answer.close()
        reply = f"{status} {answer.reason or ''}".strip()
        if status in _GONE:
            raise FileNotFoundError(errno.ENOENT, "There is no such object", place)
        if status == HTTPStatus.PRECONDITION_FAILED:
            raise BusyError(f"{place} was replaced while it was read: read it again")
        if status in _REFUSED:
            raise ConfigError(
                f"{place} is refused ({reply}): give an address that may be read, with "
                "https://<user>:<password>@<host> if it takes them"
            )
        if status in LATER:
            raise ConnectionError(f"{place} is not answered for now ({reply}): try again later")
        raise OSError(errno.EIO, f"{place} is answered with {reply}: see whether that is right")


def _length(answer: urllib3.BaseHTTPResponse) -> int | None:
    text = answer.headers.get("Content-Length", "")
    return int(text) if text.isdecimal() else None


def _begin(answer: urllib3.BaseHTTPResponse) -> int:
    text = answer.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return int(text) if text.isdecimal() else -1


def _total(answer: urllib3.BaseHTTPResponse) -> int | None:
    text = answer.headers.get("Content-Range", "").rpartition("/")[2]
    return int(text) if text.isdecimal() else None
