"""The published archive under `/archive/`: ZIPs, hash files, index and pages, as they lie.

Only what is published: a name that begins with a dot is none of it, nor is what a symbolic link
finds outside of the archive.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from starlette.types import Receive, Scope, Send

from api.core.api_errors import Code
from api.http.answers import ANSWER_HEADERS, departure, method_not_allowed, not_found, refusal
from api.http.file_answers import FileContent, send_file
from api.http.served_database import ServedAddress, ServedDatabase
from api.service import Service
from exporters.archive.page import files_page
from exporters.archive.public_sql import PUBLIC_TYPES
from transforms.errors import ConfigError, IntegrityError
from transforms.objects import ObjectInfo
from transforms.stores.store import Store, checked_key, folder_infos

_TYPES = {
    "zip": "application/zip",
    "json": "application/json",
    "html": "text/html; charset=utf-8",
    "sha256": "text/plain; charset=utf-8",
    "minisig": "text/plain; charset=utf-8",
    "SHA256SUMS": "text/plain; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
_MOST_LISTED = 10_000
"""The bound on what a page of a folder lists: with its hash files, 5,000 ZIPs of a table."""
_UNKNOWN_TYPE = "application/octet-stream"
_UNKNOWN_ADDRESS = refusal(
    Code.NOT_FOUND,
    "the server does not know that it is read at this address: set STRATA_PUBLIC_URL, or name the "
    "host in STRATA_API_HOSTS",
)
# Its pages have their style in them, and load nothing. Whoever fills an archive, a page of theirs
# runs nothing on behalf of this server.
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
)


@dataclass(frozen=True, slots=True)
class ArchiveFiles:
    """Serves the objects of the archive's store, whatever it is, below one path.

    What it lacks of `database`, that has.
    """

    service: Service
    database: ServedDatabase
    address: ServedAddress

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer GET and HEAD."""
        scope["operation"] = "archive"
        scope[ANSWER_HEADERS] += _HEADERS
        if scope["method"] not in ("GET", "HEAD"):
            await method_not_allowed()(scope, receive, send)
            return
        key = scope["path_params"]["key"]
        address = self.address.of(scope)
        content = await self.service.files.run(
            lambda _: self._content(key, address), departure=departure(receive)
        )
        if content is None:
            is_unknown = not address and key.rpartition("/")[2] in PUBLIC_TYPES
            await (_UNKNOWN_ADDRESS if is_unknown else not_found())(scope, receive, send)
            return
        await send_file(self.service.reading, content, scope, receive, send)

    def _content(self, key: str, address: str) -> FileContent | None:
        """The file of a key, asked for at an address; None where there is none."""
        path = f"{key}index.html" if key.endswith("/") else key
        if not _is_public(path):
            return None
        info = self.service.store.head(path)
        if info and _is_inside(self.service.store, path):
            return _content(self.service.store, info)
        if path != key:
            return self._listing(key)
        made, files = self.database.key(key, address), self.database.files
        info = files.head(made) if made else None
        return _content(files, info) if info else None

    def _listing(self, folder: str) -> FileContent | None:
        """A page that links what is in a folder, for programs that copy it; None if too much is."""
        infos = [*islice(folder_infos(self.service.store, folder.rstrip("/")), _MOST_LISTED + 1)]
        if not 0 < len(infos) <= _MOST_LISTED or not _is_inside(self.service.store, infos[0].key):
            return None
        paths = (info.key[len(folder) :].partition("/") for info in infos)
        names = {f"{name}{slash}" for name, slash, _ in paths if not name.startswith(".")}
        page = files_page(folder, sorted(names))
        tag = hashlib.sha256(page).hexdigest()[:32]
        return FileContent(len(page), f'"{tag}"', _TYPES["html"], lambda a, b: page[a:b])


def _is_public(key: str) -> bool:
    """Whether a key may be that of an object in the archive."""
    with suppress(ConfigError):
        return not any(name.startswith(".") for name in checked_key(key).split("/"))
    return False


def _is_inside(store: Store, key: str) -> bool:
    """Whether an object lies where its key says, or elsewhere in the archive; links may tell."""
    path = store.path(key)
    if path is None:
        return True
    root = path.parents[key.count("/")]
    return path.resolve().is_relative_to(root.resolve())


def _content(store: Store, info: ObjectInfo) -> FileContent:
    def read(start: int, stop: int) -> bytes:
        block = store.read(info.key, start, stop - start)
        if len(block) != stop - start:
            raise IntegrityError(f"{store.describe(info.key)} was cut short while served")
        return block

    tag = hashlib.sha256(info.version.encode()).hexdigest()[:32]
    name = info.key.rpartition("/")[2]
    kind = _TYPES.get(name.rpartition(".")[2], _UNKNOWN_TYPE)
    return FileContent(info.size, f'"{tag}"', kind, read)
