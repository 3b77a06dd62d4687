"""Signed on request: what is published with a key, and what readers without a key notice."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from exporters.archive.archive import Archive
from exporters.archive.documents import refresh
from exporters.archive.hash_lists import SIGNATURES
from exporters.publishing.publication import publish_zips
from exporters.signing_keys import Signer, check_signature, read_public_key
from exporters.verifying.verify_documents import signature_findings
from tests.archive_kit import (
    CHAIN,
    THREE,
    KilledError,
    KillingStore,
    contents,
    segment_requests,
    verify_archive,
)
from tests.minisign_kit import PUBLIC_KEY, SECRET_KEY, minisign
from tests.s3_kit import BucketServer, bucket_server
from transforms.errors import ConfigError
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import Store
from transforms.verifying.findings import Problem

PUBLIC = read_public_key(PUBLIC_KEY)


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as server:
        yield server


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "folder":
        yield FolderStore(tmp_path / "store")
        return
    with request.getfixturevalue("server").store() as store:
        yield store


@pytest.fixture
def signer(tmp_path: Path) -> Signer:
    path = tmp_path / "strata.key"
    path.write_text(SECRET_KEY)
    return Signer(path)


def signed(archive: Archive) -> dict[str, bytes]:
    """The signatures, by the document that each is of; each is right."""
    found = {name: archive.read(f"{name}.minisig") or b"" for name in SIGNATURES}
    for name, signature in found.items():
        comment = check_signature(archive.read(name) or b"", signature, PUBLIC, name)
        assert comment.startswith(f"chain {CHAIN}, up to block ")
        assert f", file {name}, signed 20" in comment
    return found


def unsigned(archive: Archive) -> list[str]:
    findings = list(signature_findings(archive, PUBLIC))
    assert {one.problem for one in findings} <= {Problem.MISSING, Problem.DAMAGED}
    return [one.place.rpartition("/")[2].removesuffix(".minisig") for one in findings]


def test_what_is_published_with_a_key_is_signed_by_it(
    store: Store, signer: Signer, tmp_path: Path
) -> None:
    archive = Archive(store, CHAIN, signer)
    publish_zips(archive, segment_requests(tmp_path, 1, 9, THREE))
    first = signed(archive)
    before = contents(store)
    publish_zips(archive, segment_requests(tmp_path, 1, 9, THREE))
    assert contents(store) == before  # nothing is signed twice
    publish_zips(archive, segment_requests(tmp_path, 10, 12, THREE))
    second = signed(archive)
    assert all(first[name] != second[name] for name in SIGNATURES)
    assert b"up to block 12," in second["index.json"]
    assert list(verify_archive(Archive(store, CHAIN))) == []


def test_minisign_accepts_a_published_archive(signer: Signer, tmp_path: Path) -> None:
    archive = Archive(FolderStore(tmp_path / "store"), CHAIN, signer)
    publish_zips(archive, segment_requests(tmp_path, 1, 9, THREE))
    for name in SIGNATURES:
        said = minisign("-Vm", tmp_path / "store" / CHAIN / name, "-P", PUBLIC_KEY)
        assert f"Trusted comment: chain {CHAIN}, up to block 9, file {name}, signed 20" in said


def test_without_a_key_nothing_is_signed_and_a_check_for_one_says_so(
    signer: Signer, tmp_path: Path
) -> None:
    store = FolderStore(tmp_path / "store")
    archive = Archive(store, CHAIN)
    publish_zips(archive, segment_requests(tmp_path, 1, 9, THREE))
    assert not any(key.endswith(".minisig") for key in contents(store))
    assert unsigned(archive) == list(SIGNATURES)
    # The next publication with a key signs what is there.
    refresh(Archive(store, CHAIN, signer), [])
    assert unsigned(archive) == []


def test_a_publisher_without_the_key_leaves_signatures_that_no_longer_match(
    signer: Signer, tmp_path: Path
) -> None:
    store = FolderStore(tmp_path / "store")
    publish_zips(Archive(store, CHAIN, signer), segment_requests(tmp_path, 1, 9, THREE))
    publish_zips(Archive(store, CHAIN), segment_requests(tmp_path, 10, 12, THREE))
    assert unsigned(Archive(store, CHAIN)) == list(SIGNATURES)
    refresh(Archive(store, CHAIN, signer), [])
    assert unsigned(Archive(store, CHAIN)) == []


def test_a_publisher_killed_before_any_write_has_all_signed_by_the_next(
    signer: Signer, tmp_path: Path
) -> None:
    model = Archive(FolderStore(tmp_path / "model"), CHAIN, signer)
    publish_zips(model, segment_requests(tmp_path, 1, 9, THREE))
    new = segment_requests(tmp_path, 10, 12, THREE)
    for deaths in count():
        folder = tmp_path / f"killed-{deaths}"
        shutil.copytree(tmp_path / "model", folder)
        store = FolderStore(folder)
        try:
            publish_zips(Archive(KillingStore(store, deaths), CHAIN, signer), new, workers=1)
        except KilledError:
            publish_zips(Archive(store, CHAIN, signer), new, workers=1)
            signed(Archive(store, CHAIN))
        else:
            break
    # ZIPs and hash files; the three files of the shard; the index, two pages, four others, two
    # signatures: the list of chains stays
    assert deaths == 2 * 3 + 3 + 8


def test_a_key_that_cannot_be_used_is_said_before_anything_is_written(tmp_path: Path) -> None:
    archive = Archive(FolderStore(tmp_path / "store"), CHAIN, Signer(tmp_path / "gone"))
    with pytest.raises(ConfigError, match=r"the signing key .*gone cannot be read"):
        publish_zips(archive, segment_requests(tmp_path, 1, 9, THREE))
    assert not (tmp_path / "store").exists()
