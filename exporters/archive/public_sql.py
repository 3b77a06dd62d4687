"""`strata.sql` and `strata.duckdb`: SQL over the lake's files at the archive's public address.

The publisher of a lake writes both. The database was made of the statements, whose text ends with
the hash of the database and one of itself: so the pair is proven without DuckDB.
"""

from __future__ import annotations

import hashlib
import re

from transforms.errors import IntegrityError

PUBLIC_SQL = "strata.sql"
PUBLIC_DATABASE = "strata.duckdb"

PUBLIC_TYPES = {PUBLIC_SQL: "application/sql", PUBLIC_DATABASE: "application/vnd.duckdb"}

_END = re.compile(
    rf"-- {re.escape(PUBLIC_DATABASE)} sha256 ([0-9a-f]{{64}})\n-- sha256 ([0-9a-f]{{64}})\n\Z"
)
_END_BYTES = 256
# An address that a shell and SQL read as it is between single quotes.
_ADDRESS = re.compile(
    r"^create table strata\.snapshot .*'(https?://[^\s'\"\\]+)' as address\b", re.M
)


def sealed_sql(statements: str, database_sha256: str) -> bytes:
    """The document of these statements, of which a database with that hash was made."""
    text = f"{statements}-- {PUBLIC_DATABASE} sha256 {database_sha256}\n"
    return f"{text}-- sha256 {hashlib.sha256(text.encode()).hexdigest()}\n".encode()


def unsealed_sql(data: bytes, place: str) -> tuple[str, str]:
    """The statements of a document and the hash of their database.

    Raises `IntegrityError` where it is damaged.
    """
    end = _END.search(data[-_END_BYTES:].decode(errors="replace"))
    whole = data[: data.rfind(b"-- sha256 ")]
    if end is None or hashlib.sha256(whole).hexdigest() != end[2]:
        raise IntegrityError(f"{place} is damaged: it does not hash to the SHA-256 at its end")
    return whole[: whole.rfind(b"-- ")].decode(), end[1]


def public_address(data: bytes | None, place: str) -> str:
    """Where anybody reads the chain's folder, by a document; empty where it does not say.

    Raises `IntegrityError` where it is damaged.
    """
    match = _ADDRESS.search(unsealed_sql(data, place)[0]) if data is not None else None
    return match[1] if match else ""


def shown_address(address: str, chain_id: str) -> str:
    """An address as people copy it: where nobody knows it, with a gap to fill in."""
    return address or f"https://<host>/archive/{chain_id}"
