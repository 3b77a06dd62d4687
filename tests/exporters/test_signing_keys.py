"""Keys and signatures in the format of minisign, held against what minisign itself made."""

from __future__ import annotations

import shutil
import subprocess
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
from minisign import KeyPair

from exporters.signing_keys import PublicKey, Signer, check_signature, read_public_key
from tests.minisign_kit import PUBLIC_KEY, SECRET_KEY, minisign
from transforms.errors import ConfigError, IntegrityError

# Made by minisign 0.11: a key with the password "secret", and its signature of b"hello".
LOCKED = """untrusted comment: minisign encrypted secret key
RWRTY0IyE6S34Gj5p/DYY19vkONwNTX8pRwu4I134FxNqQfPLCgAAAACAAAAAAAAAEAAAAAADjNd0Hwd6kaD40MiY+tTFp0SFKcwfyIK3sNEa0N5ZJD3obQxs8BFb6yOCe2yjnSmiJ2PJUa/SJImFDOPdYJjs0VEJ3akyWylw3bfy7zkgJ8w7eSheh7v/Y0w4qIF+zXsvC8O8PX3cao=
"""
LOCKED_PUBLIC = "RWTKBl2uEgEzWnmINLBp3ki5oJoij2nsRwJkmLKZV44xs4ivK0fodObV"
HELLO = b"""untrusted comment: signature from minisign secret key
RUR2Fs3d4OLPO2tsh9iYs8BMndZQH5eEkAxEdKJyxWVxYZAHmxFxT7MhbU4rrX8tKK4IoWtklwQIxM1oMTJ4ed774Ih8nsP9PgI=
trusted comment: a comment
SOA78lKtX1YM5JzRm+Psu0uKZlqVhSjvxIONOfzjEoErBoP32opHpi/4HaBqdlbrymauKG8AmAre+7aho18eAA==
"""


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "strata.key"
    path.write_text(SECRET_KEY)
    return path


@pytest.fixture
def public() -> PublicKey:
    return read_public_key(PUBLIC_KEY)


def test_a_signature_of_minisign_is_accepted_with_its_comment(public: PublicKey) -> None:
    assert check_signature(b"hello", HELLO, public) == "a comment"


def test_a_key_of_minisign_signs_as_minisign_does(key_file: Path, public: PublicKey) -> None:
    signer = Signer(key_file)
    assert signer.key.get_public_key() == public
    assert SECRET_KEY.splitlines()[1] not in f"{signer!r}{signer.key!r}"
    lines, expected = signer.sign(b"hello", "a comment").splitlines(), HELLO.splitlines()
    assert lines[1:] == expected[1:]
    assert signer.has_signed(b"hello", HELLO)
    assert not signer.has_signed(b"hellO", HELLO)


def test_a_locked_key_needs_its_password(tmp_path: Path) -> None:
    path = tmp_path / "locked.key"
    path.write_text(LOCKED)
    with pytest.raises(ConfigError, match="has a password: set STRATA_SIGNING_PASSWORD"):
        _ = Signer(path).key
    key = Signer(path, "secret").key
    assert key.get_public_key() == read_public_key(LOCKED_PUBLIC)
    other = KeyPair.generate()  # of what minisign locks each password takes seconds to try
    other.secret_key.encrypt("secret", opslimit=2**15, memlimit=2**24)
    path.write_bytes(bytes(other.secret_key))
    assert Signer(path, "secret").key.get_public_key() == other.public_key
    with pytest.raises(ConfigError, match="with STRATA_SIGNING_PASSWORD: wrong password"):
        _ = Signer(path, "Secret").key


@pytest.mark.parametrize("at", range(3))
def test_minisign_accepts_what_strata_signs(key_file: Path, tmp_path: Path, at: int) -> None:
    document = tmp_path / "document"
    document.write_bytes(bytes(range(256)) * 1000 * at)
    signature = Signer(key_file).sign(document.read_bytes(), "chain a,\nblock 7")
    (tmp_path / "document.minisig").write_bytes(signature)
    assert "chain a, block 7" in minisign("-Vm", document, "-P", PUBLIC_KEY)
    document.write_bytes(b"another")
    with pytest.raises(subprocess.CalledProcessError):
        minisign("-Vm", document, "-P", PUBLIC_KEY)


@pytest.mark.parametrize(
    ("data", "signature", "message"),
    [
        (b"hellO", HELLO, "not what was signed by RWR2.*: try again"),
        (b"hello", HELLO.replace(b"a comment", b"b comment"), "not what was signed"),
        (b"hello", b"", "none of minisign's"),
        (b"hello", b"\xff\n\n\n", "none of minisign's"),
        (b"hello", HELLO[:-20], "none of minisign's"),
        (b"hello", HELLO.replace(b"trusted comment: a", b"a"), "none of minisign's"),
        (b"hello", b"\n".join(HELLO.splitlines()[:2] * 2), "none of minisign's"),
    ],
)
def test_anything_else_is_refused_in_words(
    public: PublicKey, data: bytes, signature: bytes, message: str
) -> None:
    with pytest.raises(IntegrityError, match=message):
        check_signature(data, signature, public)


def test_every_bit_of_a_signature_counts(public: PublicKey) -> None:
    lines = HELLO.splitlines()
    for line in (1, 3):
        data = b64decode(lines[line])
        for at in range(len(data)):
            flipped = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            wrong = b"\n".join([*lines[:line], b64encode(flipped), *lines[line + 1 :]])
            with pytest.raises(IntegrityError):
                check_signature(b"hello", wrong, public)


def test_the_signature_of_another_key_is_named_as_such() -> None:
    with pytest.raises(IntegrityError, match=r"the index is not what .* \(incompatible key id"):
        check_signature(b"hello", HELLO, read_public_key(LOCKED_PUBLIC), "the index")


def test_a_public_key_is_read_from_a_file_or_as_text(tmp_path: Path, public: PublicKey) -> None:
    path = tmp_path / "strata.pub"
    path.write_text(f"untrusted comment: a key\n{PUBLIC_KEY}\n")
    assert read_public_key(str(path)) == public
    for wrong in ("", "RWabc", PUBLIC_KEY[:-4], str(tmp_path), "RW\n" + "x" * 56):
        with pytest.raises(ConfigError, match="is no public key of minisign"):
            read_public_key(wrong)


def test_a_file_that_is_no_secret_key_is_refused(tmp_path: Path, key_file: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        _ = Signer(tmp_path / "gone").key
    for content in (b"", b"\xff\xfe", PUBLIC_KEY.encode(), SECRET_KEY.encode()[:100]):
        key_file.write_bytes(content)
        with pytest.raises(ConfigError, match=r"cannot be read|no secret key"):
            _ = Signer(key_file).key
    data = bytearray(b64decode(SECRET_KEY.splitlines()[1]))
    data[70] ^= 1  # of the seed: the public key beside it is then another one's
    key_file.write_text(b64encode(data).decode())
    with pytest.raises(ConfigError, match="is damaged: put it back from a backup"):
        _ = Signer(key_file).key


def test_minisign_makes_keys_that_sign(tmp_path: Path) -> None:
    if shutil.which("minisign") is None:
        pytest.skip("minisign is not installed")
    minisign("-G", "-W", "-p", tmp_path / "new.pub", "-s", tmp_path / "new.key")
    signer, public = Signer(tmp_path / "new.key"), read_public_key(str(tmp_path / "new.pub"))
    assert check_signature(b"x", signer.sign(b"x", "c"), public) == "c"
