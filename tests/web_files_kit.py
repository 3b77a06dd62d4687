"""Files behind a web server for a DuckDB that has no httpfs: each reading is one request.

A Parquet file of a lake never changes: its size is asked once.
"""

from __future__ import annotations

import urllib.request
from datetime import UTC, datetime
from typing import Any

import fsspec
from fsspec.spec import AbstractBufferedFile


class WebFiles(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """Files by their `http://` addresses."""

    protocol = "http"
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[str, int] = {}

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        if path not in self._sizes or not path.endswith(".parquet"):
            request = urllib.request.Request(path, method="HEAD")
            with urllib.request.urlopen(request) as answer:
                self._sizes[path] = int(answer.headers["Content-Length"])
        return {"name": path, "size": self._sizes[path], "type": "file"}

    def glob(self, path: str, **_: Any) -> list[str]:
        return [path] if self.exists(path) else []

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        return [self.info(path) if detail else path]

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(0, UTC)  # a file of the lake never changes

    def _open(self, path: str, mode: str = "rb", **_: Any) -> AbstractBufferedFile:
        return _WebFile(self, path, mode, cache_type="none")


class _WebFile(AbstractBufferedFile):  # type: ignore[misc]
    def _fetch_range(self, start: int, end: int) -> bytes:
        header = {"Range": f"bytes={start}-{end - 1}"}
        with urllib.request.urlopen(urllib.request.Request(self.path, headers=header)) as answer:
            return bytes(answer.read())
