"""Signatures as minisign writes them (`.minisig`), over a file's BLAKE2b.

Four lines: a comment that nothing proves, the signature (`ED`, the key's number, 64 bytes), a
trusted comment, and a signature over the signature and that comment.
"""

from __future__ import annotations

import binascii
import hashlib
from base64 import b64decode, b64encode
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nacl.exceptions import BadSignatureError

from exporters.signing.keys import PublicKey, SecretKey, read_secret_key
from transforms.errors import IntegrityError

ENDING = ".minisig"
"""What follows a file's name in that of its signature."""

_HASHED = b"ED"
_UNTRUSTED, _TRUSTED = "untrusted comment: ", "trusted comment: "
_BYTES = 74


@dataclass(frozen=True)
class Signer:
    """Signs with the key in a file, which is read when it is first needed."""

    path: Path
    password: str = ""

    def __repr__(self) -> str:
        return f"Signer({self.path})"

    @cached_property
    def key(self) -> SecretKey:
        """The key. Raises `ConfigError` where it cannot be used."""
        return read_secret_key(self.path, self.password)

    def sign(self, data: bytes, comment: str) -> bytes:
        """The signature of a file's content, with a comment that it covers."""
        return sign(data, self.key, comment)

    def has_signed(self, data: bytes, signature: bytes) -> bool:
        """Whether this is a signature of the data with this key."""
        try:
            check_signature(data, signature, self.key.public)
        except IntegrityError:
            return False
        return True


def sign(data: bytes, key: SecretKey, comment: str) -> bytes:
    """The signature of a file's content, with a comment (one line) that it covers."""
    comment = " ".join(comment.split())
    signature = key.signing_key.sign(_digest(data)).signature
    whole = key.signing_key.sign(signature + comment.encode()).signature
    line = b64encode(_HASHED + key.number + signature).decode()
    number = int.from_bytes(key.number, "little")
    head = f"{_UNTRUSTED}signature of Strata with key {number:016X}"
    return f"{head}\n{line}\n{_TRUSTED}{comment}\n{b64encode(whole).decode()}\n".encode()


def check_signature(
    data: bytes, signature: bytes, public_key: PublicKey, place: str = "the file"
) -> str:
    """The trusted comment of a file's signature; `place` names the file in errors.

    Raises `IntegrityError` where the file is not signed by this key.
    """
    number, signed, comment, whole = _parsed(signature, place)
    if number != public_key.number:
        raise IntegrityError(
            f"{place} is signed by another key than {public_key}: ask who publishes it which key "
            "is right, and do not use it before"
        )
    try:
        public_key.verify_key.verify(signed + comment.encode(), whole)
        public_key.verify_key.verify(_digest(data), signed)
    except BadSignatureError:
        raise IntegrityError(
            f"{place} is not what was signed: try again, as a publisher may be at work; if it "
            "stays so, do not use it, and tell who publishes it"
        ) from None
    return comment


def _parsed(signature: bytes, place: str) -> tuple[bytes, bytes, str, bytes]:
    """Key number, signature, trusted comment, and the signature over both."""
    try:
        _, line, comment, last = signature.decode().splitlines()
        data, whole = b64decode(line, validate=True), b64decode(last, validate=True)
        is_known = len(data) == _BYTES and data[:2] == _HASHED and len(whole) == 64
    except (ValueError, binascii.Error):
        is_known = False
    if not is_known or not comment.startswith(_TRUSTED):
        raise IntegrityError(f"the signature of {place} is none of minisign's: fetch it again")
    return data[2:10], data[10:], comment.removeprefix(_TRUSTED), whole


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data).digest()
