"""Keys as minisign keeps them: `minisign -G` makes a pair, nothing here does.

The second line of a key file is base64. Of a public key: `Ed`, its number (8 bytes), the Ed25519
key. Of a secret key: `Ed`, how it is locked (`Sc`: by scrypt from a password; or two zeros), `B2`,
salt and cost of that; then, locked or not, number, seed, public key and a BLAKE2b of these.
"""

from __future__ import annotations

import binascii
import hashlib
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from pathlib import Path

from nacl.exceptions import CryptoError
from nacl.pwhash import scrypt
from nacl.signing import SigningKey, VerifyKey

from transforms.errors import ConfigError

_KIND = b"Ed"
_UNLOCKED, _LOCKED = b"\0\0", b"Sc"
_CHECKSUM = b"B2"
_PUBLIC_BYTES, _SECRET_BYTES = 42, 158


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key: the number that its signatures name, and 32 bytes of Ed25519."""

    number: bytes
    key: bytes

    def __str__(self) -> str:
        """As minisign writes it, and takes it with `-P`."""
        return b64encode(_KIND + self.number + self.key).decode()

    @property
    def verify_key(self) -> VerifyKey:
        """What verifies."""
        return VerifyKey(self.key)


@dataclass(frozen=True, slots=True)
class SecretKey:
    """A secret key: the number that it puts into signatures, and the seed of Ed25519."""

    number: bytes
    seed: bytes = field(repr=False)

    @property
    def signing_key(self) -> SigningKey:
        """What signs."""
        return SigningKey(self.seed)

    @property
    def public(self) -> PublicKey:
        """The public key that belongs to it."""
        return PublicKey(self.number, bytes(self.signing_key.verify_key))


def read_public_key(given: str) -> PublicKey:
    """The public key in a file of minisign's, or the key itself as text (`RW...`).

    Raises `ConfigError` where it is neither.
    """
    path = Path(given).expanduser()
    try:
        text = path.read_text() if path.is_file() else given
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the public key {given} cannot be read: {error}") from error
    data = _decoded(text)
    if len(data) != _PUBLIC_BYTES or data[:2] != _KIND:
        raise ConfigError(
            f"{given} is no public key of minisign: give the file that minisign -G made, or the "
            "line in it that begins with RW"
        )
    return PublicKey(data[2:10], data[10:])


def read_secret_key(path: Path, password: str = "") -> SecretKey:
    """The secret key in a file that `minisign -G` made; to unlock one takes seconds and 1 GiB.

    Raises `ConfigError` where it is none, or the password is not its own.
    """
    try:
        data = _decoded(path.expanduser().read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the signing key {path} cannot be read: {error}") from error
    if len(data) != _SECRET_BYTES or data[:2] != _KIND or data[4:6] != _CHECKSUM:
        raise ConfigError(f"{path} is no secret key of minisign: make one with minisign -G")
    how, salt, secret = data[2:4], data[6:38], data[54:]
    if how == _LOCKED:
        if not password:
            raise ConfigError(
                f"the signing key {path} has a password: set STRATA_SIGNING_PASSWORD to it"
            )
        costs = (int.from_bytes(data[start : start + 8], "little") for start in (38, 46))
        secret = _unlocked(path, secret, password.encode(), salt, *costs)
    elif how != _UNLOCKED:
        raise ConfigError(f"{path} is locked in a way that is not known: make a key anew")
    number, seed, public = secret[:8], secret[8:40], secret[40:72]
    checksum = hashlib.blake2b(_KIND + secret[:72], digest_size=32).digest()
    key = SecretKey(number, seed)
    # An unlocked key may have zeros for a checksum.
    if key.public.key != public or (how == _LOCKED and checksum != secret[72:]):
        what = "STRATA_SIGNING_PASSWORD is not its password" if how == _LOCKED else "it is damaged"
        raise ConfigError(f"the signing key {path} cannot be used: {what}")
    return key


def _unlocked(
    path: Path, secret: bytes, password: bytes, salt: bytes, operations: int, memory: int
) -> bytes:
    try:
        stream = scrypt.kdf(len(secret), password, salt, operations, memory)
    except (CryptoError, ValueError, MemoryError) as error:
        raise ConfigError(f"the signing key {path} cannot be unlocked here: {error}") from error
    return bytes(one ^ other for one, other in zip(secret, stream, strict=True))


def _decoded(text: str) -> bytes:
    """The bytes of the last line; nothing where it is no base64."""
    lines = text.strip().splitlines()
    try:
        return b64decode(lines[-1].strip(), validate=True) if lines else b""
    except (binascii.Error, ValueError):
        return b""
