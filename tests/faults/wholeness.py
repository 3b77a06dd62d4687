"""What anybody may find at any moment is whole: documents parse, and what they name is there.

It is read here with the standard library, and the parser of the warehouse's snapshots.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transforms.errors import StrataError
from transforms.warehouse.log.snapshot import parse_snapshot


def half_done(warehouse: Path, archive: Path) -> list[str]:
    """What is wrong with what a reader of these folders finds, as sentences."""
    return [*_of_log(warehouse), *archive_problems(archive)]


def _of_log(warehouse: Path) -> Iterator[str]:
    for path in sorted((warehouse / "log").glob("*.json")):
        data = path.read_bytes()
        try:
            snapshot = parse_snapshot(data, str(path))
        except StrataError as error:
            yield str(error)
            continue
        for file in snapshot.files():
            yield from _differs(warehouse / file.key, file.sha256, path.name)


def archive_problems(archive: Path) -> Iterator[str]:
    """The same for the archive alone."""
    for path in sorted(archive.rglob("*")):
        if not path.is_file() or any(part.startswith(".") for part in path.parts):
            continue
        if path.suffix == ".sha256":
            for line in path.read_text().splitlines():
                sha256, _, name = line.partition("  ")
                folder = path.parent.parent if path.parent.name == "index" else path.parent
                yield from _differs(folder / name, sha256, path.name)
        elif path.suffix == ".json" and path.parent.name != "_delta_log":  # verify proves the lake
            yield from _of_document(path)
        elif path.suffix == ".html" and not path.read_text().rstrip().endswith("</html>"):
            yield f"{path} ends too early"


def _of_document(path: Path) -> Iterator[str]:
    try:
        document = json.loads(path.read_bytes())
    except ValueError as error:
        yield f"{path} is no JSON: {error}"
        return
    chain = path.parent.parent if path.parent.name == "index" else path.parent
    for entry in _named(document):
        yield from _differs(chain / entry["path"], entry["sha256"], path.name)


def _named(document: Any) -> Iterator[dict[str, str]]:
    """What a document names with its hash: ZIPs of a shard; not shards, which change before it."""
    if isinstance(document, dict):
        yield from document.get("zips", ()) if isinstance(document.get("zips"), list) else ()


def _differs(path: Path, sha256: str, named_by: str) -> Iterator[str]:
    if not path.exists():
        yield f"{named_by} names {path}, which is not there"
    else:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != sha256 and not _is_on_record(path, sha256, found):
            yield f"{path} is not what {named_by} says"


def _is_on_record(path: Path, old: str, new: str) -> bool:
    """Whether the revisions say that this ZIP is just being replaced: its entry comes after."""
    revisions = path.parent.parent / "revisions.json"
    events = json.loads(revisions.read_bytes())["revisions"] if revisions.exists() else []
    return any(
        (event["path"], event["old_sha256"], event["new_sha256"])
        == (f"{path.parent.name}/{path.name}", old, new)
        for event in events
    )
