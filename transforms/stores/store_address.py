"""From an address to the store that it names."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from transforms.errors import ConfigError
from transforms.files import check_folder_place
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import S3Options, Store


def open_store(url: str, options: S3Options | None = None) -> Store:
    """Open the store that `url` names: a path, `file:///path` or `s3://bucket/prefix`.

    Nothing is read or created yet. Raises `ConfigError` for any other address, and for a file in
    place of a folder.
    """
    parts = urlsplit(url)
    if parts.scheme == "s3":
        # boto3 takes its time to import, which a folder need not pay.
        from transforms.stores.s3 import S3Store

        if not parts.netloc:
            raise ConfigError(f"{url!r} names no bucket: write s3://<bucket>/<prefix>")
        return S3Store(parts.netloc, url[5:].partition("/")[2].strip("/"), options)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path:
        return _folder(Path(unquote(parts.path)))
    if not url or "://" in url or parts.scheme == "file":
        raise ConfigError(f"{url!r} is no store: give a folder, file:///<path> or s3://<bucket>")
    return _folder(Path(url).expanduser())


def _folder(path: Path) -> FolderStore:
    check_folder_place(path)
    return FolderStore(path)


def open_reader(url: str, options: S3Options | None = None) -> Store:
    """Open a store to read from: as `open_store`, and also what a web server shows at `https://`.

    Raises `ConfigError`, also where one asks to write to a web server.
    """
    if url.startswith(("http://", "https://")):
        from transforms.stores.http import HttpStore  # a folder need not pay for urllib3

        return HttpStore(url)
    return open_store(url, options)
