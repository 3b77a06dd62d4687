"""The files of a Delta log as they lie there: commits, and checkpoints that sum them up.

A commit of ours has the SHA-256 of its actions in its first line, so that a flipped bit is found.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from exporters.archive.archive import refused_as_absent
from exporters.lake.log.table_version import Action, TableVersion
from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo, ObjectReader

HINT = "_last_checkpoint"
"""The file of a log that says which checkpoint is the newest."""

PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
"""What readers and writers of the tables must know."""

_COMMIT = re.compile(r"\d{20}\.json")
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.parquet")
_TEXTS = pa.map_(pa.string(), pa.string())
_ADD = {"path": pa.string(), "partitionValues": _TEXTS, "size": pa.int64()}
_ADD |= {"modificationTime": pa.int64(), "dataChange": pa.bool_(), "stats": pa.string()}
_REMOVE = {"path": pa.string(), "deletionTimestamp": pa.int64(), "dataChange": pa.bool_()}
_METADATA = {"id": pa.string(), "name": pa.string(), "description": pa.string()}
_METADATA |= {"format": pa.struct({"provider": pa.string(), "options": _TEXTS})}
_METADATA |= {"schemaString": pa.string(), "partitionColumns": pa.list_(pa.string())}
_METADATA |= {"configuration": _TEXTS}
_SCHEMA = pa.schema(
    {
        "protocol": pa.struct(dict.fromkeys(PROTOCOL, pa.int32())),
        "metaData": pa.struct(_METADATA),
        "add": pa.struct(_ADD | {"tags": _TEXTS}),
        "remove": pa.struct(_REMOVE),
    }
)


def commit_name(version: int) -> str:
    """What the file of a commit is called."""
    return f"{version:020}.json"


def checkpoint_name(version: int) -> str:
    """What the file of a checkpoint is called."""
    return f"{version:020}.checkpoint.parquet"


def commit_bytes(now: int, actions: Iterable[Action]) -> bytes:
    """The file of a commit with these actions, at a time in milliseconds."""
    body = b"".join(_line(action) for action in actions)
    # No two commits have the same bytes: who finds another one there must not take it for its own.
    info = {"timestamp": now, "operation": "WRITE", "txnId": uuid4().hex}
    return _line({"commitInfo": info | {"sha256": hashlib.sha256(body).hexdigest()}}) + body


def checkpoint_bytes(version: TableVersion) -> tuple[bytes, bytes]:
    """The checkpoint of a version, and the file that names it."""
    rows = [{"protocol": PROTOCOL}, *version.actions()]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), buffer)
    hint = {"version": version.number, "size": len(rows)}
    return buffer.getvalue(), json.dumps(hint).encode()


def last_commit(names: Iterable[str]) -> int:
    """The number of the last commit among files of a log; -1 where none is."""
    return max((int(name[:20]) for name in names if _COMMIT.fullmatch(name)), default=-1)


def read_log(reader: ObjectReader, folder: str, last: int | None = None) -> dict[str, bytes]:
    """The files of a log that say what its newest version is, by name; none without a log.

    They are read by their names. `last` is the number of the last commit, where the log was
    listed; web servers give no lists: without it, commits are read until there is none.
    Raises `IntegrityError` where one of them is not there.
    """
    files: dict[str, bytes] = {}
    number, read_commit = -1, _read_optional if last is None else _read_named
    if (hint := _read_optional(reader, folder, HINT)) is not None:
        number = _hinted_version(hint)
        name = checkpoint_name(number)
        files = {HINT: hint, name: _read_named(reader, folder, name)}
    while last is None or number < last:
        number += 1
        name = commit_name(number)
        if (commit := read_commit(reader, folder, name)) is None:
            break
        files[name] = commit
    return files


def _read_named(reader: ObjectReader, folder: str, name: str) -> bytes:
    """Read a file that another one names. Raises `IntegrityError` if it is missing."""
    try:
        return reader.read(f"{folder}/{name}")
    except FileNotFoundError as error:
        raise IntegrityError(f"{name} is not there") from error


def _read_optional(reader: ObjectReader, folder: str, name: str) -> bytes | None:
    key = f"{folder}/{name}"
    with suppress(FileNotFoundError), refused_as_absent(reader, key):
        return reader.read(key)
    return None


def _hinted_version(hint: bytes) -> int:
    try:
        return int(json.loads(hint)["version"])
    except (ValueError, TypeError, LookupError) as error:
        raise IntegrityError(f"{HINT} cannot be read: {error}") from error


def parsed_files(files: Mapping[str, bytes]) -> TableVersion:
    """The version that the files of a log say, in their order; that of no table without any.

    Raises `IntegrityError` where one is damaged, or says what Strata's logs do not.
    """
    name, version = "", TableVersion()
    try:
        for name, data in files.items():
            if name != HINT:
                version = version.following(int(name[:20]), _actions(name, data))
        version.check()
    except (pa.ArrowException, ValueError, TypeError, LookupError, AttributeError) as error:
        raise IntegrityError(f"{name} cannot be read: {error}") from error
    return version


def outdated(infos: Mapping[str, ObjectInfo], horizon: float) -> list[str]:
    """The files of a log, by name, that nobody needs for a version after the horizon.

    The oldest come first: where a commit is, those after it are.
    """
    checkpoints = {name for name in infos if _CHECKPOINT.fullmatch(name)}
    base = max((name for name in checkpoints if infos[name].modified <= horizon), default="")
    ours = checkpoints.union(filter(_COMMIT.fullmatch, infos))
    return sorted(name for name in ours if name[:20] < base[:20])


def _actions(name: str, data: bytes) -> Iterator[Action]:
    """The actions of a commit or a checkpoint. Raises `IntegrityError`, and what parsing does."""
    if name.endswith(".parquet"):
        table = pq.read_table(io.BytesIO(data), use_threads=False)
        rows = table.to_pylist(maps_as_pydicts="strict")
    else:
        rows = [json.loads(line) for line in data.splitlines() if line]
        sealed = rows[0].get("commitInfo", {}).get("sha256")
        if sealed and sealed != hashlib.sha256(data.partition(b"\n")[2]).hexdigest():
            raise IntegrityError(f"{name} is not as it was written")
    for row in rows:
        wanted = row.get("protocol") or {}
        if any((wanted.get(name) or 0) > known for name, known in PROTOCOL.items()):
            raise IntegrityError(f"another program has raised its protocol, in {name}")
        yield row


def _line(action: Action) -> bytes:
    return f"{json.dumps(action, separators=(',', ':'))}\n".encode()
