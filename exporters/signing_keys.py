"""Keys and signatures of minisign (`.minisig`): `minisign -G` makes a pair of keys."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from minisign import Error, ParseError, PublicKey, SecretKey, Signature, VerifyError

from transforms.errors import ConfigError, IntegrityError

__all__ = ["PublicKey", "Signer", "check_signature", "read_public_key"]


@dataclass(frozen=True)
class Signer:
    """Signs with the key in a file, which is read when it is first needed."""

    path: Path
    password: str = ""

    def __repr__(self) -> str:
        return f"Signer({self.path})"

    @cached_property
    def key(self) -> SecretKey:
        """The key; to unlock one takes seconds and 1 GiB. Raises `ConfigError` for an unfit one."""
        try:
            key = SecretKey.from_base64(_last_line(self.path.expanduser().read_text()))
            if key.is_encrypted() and not self.password:
                raise ConfigError(
                    f"the signing key {self.path} has a password: set STRATA_SIGNING_PASSWORD to it"
                )
            key.decrypt(self.password)
            # Nothing else says that seed and public key of an unlocked key belong together.
            key.get_public_key().verify(b"", key.sign(b""))
        except ParseError as error:
            raise ConfigError(
                f"{self.path} is no secret key of minisign: make one with minisign -G"
            ) from error
        except VerifyError as error:
            raise ConfigError(
                f"the signing key {self.path} is damaged: put it back from a backup"
            ) from error
        except (Error, MemoryError) as error:
            raise ConfigError(
                f"the signing key {self.path} cannot be unlocked with STRATA_SIGNING_PASSWORD: "
                f"{error}"
            ) from error
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the signing key {self.path} cannot be read: {error}") from error
        return key

    def sign(self, data: bytes, comment: str) -> bytes:
        """The signature of a file's content, with a comment that it covers."""
        signature = self.key.sign(
            data, untrusted_comment="signature of Strata", trusted_comment=" ".join(comment.split())
        )
        return bytes(signature) + b"\n"

    def has_signed(self, data: bytes, signature: bytes) -> bool:
        """Whether this is a signature of the data with this key."""
        try:
            check_signature(data, signature, self.key.get_public_key())
        except IntegrityError:
            return False
        return True


def read_public_key(source: str) -> PublicKey:
    """The public key in a file of minisign's, or the key itself as text (`RW...`).

    Raises `ConfigError` where it is neither.
    """
    path = Path(source).expanduser()
    try:
        return PublicKey.from_base64(_last_line(path.read_text() if path.is_file() else source))
    except ParseError as error:
        raise ConfigError(
            f"{source} is no public key of minisign: give the file that minisign -G made, or the "
            "line in it that begins with RW"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the public key {source} cannot be read: {error}") from error


def check_signature(
    data: bytes, signature: bytes, public_key: PublicKey, place: str = "the file"
) -> str:
    """The trusted comment of a file's signature; `place` names the file in errors.

    Raises `IntegrityError` where the file is not signed by this key.
    """
    try:
        parsed = Signature.from_bytes(signature)
        public_key.verify(data, parsed)
    except ParseError as error:
        raise IntegrityError(
            f"the signature of {place} is none of minisign's: fetch it again"
        ) from error
    except VerifyError as error:
        raise IntegrityError(
            f"{place} is not what was signed by {public_key.to_base64().decode()} ({error}): try "
            "again, as a publisher may be at work; if it stays so, do not use it, and ask who "
            "publishes it which key is right"
        ) from error
    return str(parsed.trusted_comment)


def _last_line(text: str) -> str:
    """Where a key file has the key."""
    return (text.strip().splitlines() or [""])[-1].strip()
