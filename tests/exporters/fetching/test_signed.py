"""Fetching only what is signed: whoever answers, nothing else is taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from exporters.archive.archive import Archive
from exporters.archive.documents import refresh
from exporters.fetching.signed import signed_archive
from exporters.publishing.publication import publish_zips
from exporters.signing_keys import Signer, read_public_key
from pipelines.commands.group import strata
from tests.archive_kit import CHAIN, THREE, segment_requests
from tests.minisign_kit import PUBLIC_KEY, SECRET_KEY
from transforms.errors import IntegrityError
from transforms.stores.folder_store import FolderStore


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Two segments, signed."""
    key = tmp_path / "strata.key"
    key.write_text(SECRET_KEY)
    archive = Archive(FolderStore(tmp_path / "archive"), CHAIN, Signer(key))
    for blocks in ((1, 10), (11, 20)):
        publish_zips(archive, segment_requests(tmp_path, *blocks, THREE))
    return archive


def fetch(archive: Archive, out: Path, *words: str) -> object:
    """Run the command; the error that ends it, None where it succeeds."""
    place = archive.store.describe()
    asked = ["fetch", place, "--out", str(out), "--key", PUBLIC_KEY, *words]
    return CliRunner().invoke(strata, asked, standalone_mode=False).exception


RANGE = ("--table", "orders")


@pytest.mark.parametrize("words", [RANGE, ("--all",)])
def test_what_is_signed_is_fetched(
    archive: Archive, tmp_path: Path, words: tuple[str, ...]
) -> None:
    assert fetch(archive, tmp_path / "out", *words) is None
    assert list((tmp_path / "out").rglob("*.zip"))


@pytest.mark.parametrize("words", [RANGE, ("--all",)])
def test_what_somebody_else_published_is_refused(
    archive: Archive, tmp_path: Path, words: tuple[str, ...]
) -> None:
    # Sound in itself, index and lists included, but published by one who has not the key.
    unsigned = Archive(archive.store, CHAIN)
    publish_zips(unsigned, segment_requests(tmp_path, 21, 30, THREE))

    error = fetch(archive, tmp_path / "out", *words)

    assert isinstance(error, IntegrityError)
    assert "is not what was signed" in str(error)
    assert not list((tmp_path / "out").rglob("*.zip"))


@pytest.mark.parametrize("path", ["index.json", "index/000000000.json"])
@pytest.mark.parametrize("words", [RANGE, ("--all",)])
def test_a_document_that_is_not_the_signed_one_is_refused(
    archive: Archive, tmp_path: Path, path: str, words: tuple[str, ...]
) -> None:
    signed = {name: archive.read(name) for name in ("SHA256SUMS", "SHA256SUMS.minisig")}
    publish_zips(Archive(archive.store, CHAIN), segment_requests(tmp_path, 21, 30, THREE))
    for name, data in signed.items():
        file = archive.store.path(archive.key(name))
        assert file is not None
        assert data is not None
        file.write_bytes(data)

    error = fetch(archive, tmp_path / "out", *words)

    assert isinstance(error, IntegrityError)
    assert "is not what the signed SHA256SUMS names" in str(error)
    source = signed_archive(archive, read_public_key(PUBLIC_KEY))
    with pytest.raises(IntegrityError, match="publisher may be at work"):
        source.read(path)


def test_what_is_not_signed_is_refused(archive: Archive, tmp_path: Path) -> None:
    archive.store.delete(archive.key("SHA256SUMS.minisig"))
    error = fetch(archive, tmp_path / "out", *RANGE)
    assert isinstance(error, IntegrityError)
    assert "not signed" in str(error)
    refresh(archive, ())  # the next publication signs again
    assert fetch(archive, tmp_path / "out", *RANGE) is None
