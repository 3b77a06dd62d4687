"""`strata.sql` and `strata.duckdb`, held against each other and against the lake."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.lake_place import LAKE
from exporters.archive.public_sql import PUBLIC_DATABASE, PUBLIC_SQL, unsealed_sql
from transforms.errors import IntegrityError
from transforms.lake.public_database import database_contents, write_database
from transforms.lake.public_views import file_lists
from transforms.scratch import scratch_folder
from transforms.verifying.findings import Finding, Problem, Remedy
from transforms.verifying.verification import Counts, Kind

_GONE = "it should be there, and is not"


def public_findings(
    archive: Archive, counts: Counts, scratch: Path | None, remedy: Remedy
) -> Iterator[Finding]:
    """Yield what is wrong with the two documents of a chain; nothing where it has none.

    The database is opened from a copy below `scratch`, and must have what the statements make.
    """
    data, place = archive.read(PUBLIC_SQL), archive.place(PUBLIC_SQL)
    if data is None:
        return
    with_address = Remedy(remedy.commands, remedy.note or "with STRATA_PUBLIC_URL set")
    counts.expect(Kind.DOCUMENTS, 2)
    counts.read(Kind.DOCUMENTS)
    try:
        statements, sha256 = unsealed_sql(data, place)
    except IntegrityError as error:
        counts.read(Kind.DOCUMENTS)  # nothing else says what the database should be
        yield Finding(Problem.BAD_INDEX, place, str(error), with_address)
        return
    for what in _lacking_files(archive, statements):
        yield Finding(Problem.BAD_INDEX, place, what, with_address)
    database = archive.read(PUBLIC_DATABASE)
    counts.read(Kind.DOCUMENTS, 0 if database is None else 1)
    what = _GONE if database is None else _difference(database, statements, sha256, scratch)
    if what:
        yield Finding(Problem.BAD_INDEX, archive.place(PUBLIC_DATABASE), what, with_address)


def _difference(database: bytes, statements: str, sha256: str, scratch: Path | None) -> str:
    """How a database is not the one of these statements; empty where it is."""
    if hashlib.sha256(database).hexdigest() != sha256:
        return f"it is damaged: it does not hash to the SHA-256 that {PUBLIC_SQL} has of it"
    with scratch_folder(scratch) as folder:
        stored, made = folder / "stored.duckdb", folder / "made.duckdb"
        stored.write_bytes(database)
        try:
            write_database(made, statements, folder)
            if database_contents(stored, folder) == database_contents(made, folder):
                return ""
        except IntegrityError as error:
            return str(error)
    return f"it has not the views and macros that {PUBLIC_SQL} makes"


def _lacking_files(archive: Archive, statements: str) -> Iterator[str]:
    """What is named and not in the lake; nothing where there is no lake, as in a mirror."""
    start = archive.key(f"{LAKE}/")
    there = {info.key for info in archive.store.list(start)}
    for files in file_lists(statements) if there else ():
        for name in files.files:
            if f"{start}{files.table}/{name}" not in there:
                yield f"it names {LAKE}/{files.table}/{name}, which is not there"
