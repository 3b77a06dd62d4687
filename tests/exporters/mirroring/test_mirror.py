"""A mirror: an archive that follows another one, whatever happens on the way."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from exporters.archive.archive import Archive
from exporters.archive.documents import refresh
from exporters.archive.revisions import revisions
from exporters.exports.copies import DamagedCopyError
from exporters.fetching.fetch_folder import choose_chain, opened_archive
from exporters.fetching.range_fetch import fetch_range
from exporters.mirroring.mirror import Mirrored, mirror
from exporters.publishing.publication import publish_zips
from exporters.publishing.replace import Correction
from exporters.signing_keys import Signer, read_public_key
from exporters.verifying.verify_documents import signature_findings
from pipelines.commands.failures import exit_code
from pipelines.commands.group import strata
from tests.archive_kit import (
    CHAIN,
    THREE,
    contents,
    part_request,
    segment_requests,
    shard_file,
    verify_archive,
)
from tests.exporters.fetching.archives import make_archive
from tests.fault_proxy import STALL, FaultProxy, Request
from tests.minisign_kit import PUBLIC_KEY, SECRET_KEY
from tests.web_kit import web_server
from transforms.block_range import BlockRange
from transforms.errors import ConfigError
from transforms.stores.folder_store import FolderStore

TYPO = Correction("a wrong price in block 12", datetime(2026, 1, 31, 12, tzinfo=UTC))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of several shards."""
    folder = tmp_path_factory.mktemp("model")
    archive = make_archive(folder)
    for first in (20_001, 40_001, 60_001):
        requests = segment_requests(folder, first, first + 9, THREE)
        publish_zips(Archive(FolderStore(archive), CHAIN), requests)
    return archive


@pytest.fixture
def archive(model: Path, tmp_path: Path) -> Archive:
    return Archive(FolderStore(shutil.copytree(model, tmp_path / "source")), CHAIN)


@pytest.fixture
def door(archive: Archive, tmp_path: Path) -> Iterator[FaultProxy]:
    with web_server(tmp_path / "source") as url:
        proxy = FaultProxy(url)
        yield proxy
        proxy.stop()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "mirror"


def mirrored(address: str, out: Path) -> Mirrored:
    with opened_archive(address) as store:
        return mirror(choose_chain(store, None), out, jobs=3)


def findings(out: Path) -> list[str]:
    local = Archive(FolderStore(out), CHAIN)
    return [f"{one.place}: {one.what}" for one in verify_archive(local)]


def zips_asked(door: FaultProxy) -> list[str]:
    return [one for one in door.requests if one.endswith(".zip")]


def test_a_mirror_is_what_the_archive_is_and_sound(
    door: FaultProxy, archive: Archive, out: Path
) -> None:
    found = mirrored(door.url, out)
    assert contents(FolderStore(out)) == contents(archive.store)
    assert findings(out) == []
    names = [info.key for info in archive.store.list() if info.key.endswith(".zip")]
    assert found.zips == len(found.fetched) == len(zips_asked(door)) == len(names)
    assert found.fetched_bytes == found.bytes


def test_a_range_is_fetched_from_a_mirror(model: Path, out: Path, tmp_path: Path) -> None:
    mirrored(str(model), out)
    ranges = [
        fetch_range(
            Archive(FolderStore(place), CHAIN), "orders", BlockRange(1, 30), tmp_path / place.name
        )
        for place in (model, out)
    ]
    assert ranges[0].sha256 == ranges[1].sha256


def test_run_again_it_fetches_only_what_is_new(
    door: FaultProxy, archive: Archive, out: Path, tmp_path: Path
) -> None:
    mirrored(door.url, out)
    shards = {path: path.stat().st_mtime_ns for path in out.rglob("index/*.json")}
    door.requests.clear()
    again = mirrored(door.url, out)
    assert (again.fetched, zips_asked(door)) == ([], [])
    assert len(shards) > 1
    assert {path: path.stat().st_mtime_ns for path in shards} == shards, "they are not written anew"

    publish_zips(archive, segment_requests(tmp_path, 60_011, 60_020, THREE))
    third = mirrored(door.url, out)

    assert len(third.fetched) == len(zips_asked(door)) == 3
    assert contents(FolderStore(out)) == contents(archive.store)


def test_what_was_lost_or_damaged_in_a_mirror_is_fetched_again(
    door: FaultProxy, archive: Archive, out: Path
) -> None:
    mirrored(door.url, out)
    lost, damaged = (out / f"{CHAIN}/trades/{CHAIN}-trades-{x}.zip" for x in ("1-10", "14-20"))
    lost.unlink()
    damaged.write_bytes(b"damaged")
    lost.with_name(f"{lost.name}.sha256").unlink()
    (out / CHAIN / shard_file(archive, 1)).write_text("{}")
    (out / CHAIN / "index.html").unlink()

    assert len(mirrored(door.url, out).fetched) == 2

    assert contents(FolderStore(out)) == contents(archive.store)


def replace_orders(archive: Archive, folder: Path) -> None:
    """Put other orders over 11-13 there."""
    corrected = part_request(folder, "orders", 11, 13, salt="corrected")
    report = publish_zips(archive, [corrected], correction=TYPO)
    assert not report.failed


def test_a_file_that_was_replaced_is_fetched_again_and_said(
    door: FaultProxy, archive: Archive, out: Path, tmp_path: Path
) -> None:
    mirrored(door.url, out)
    replace_orders(archive, tmp_path)

    found = mirrored(door.url, out)

    assert found.replaced == {
        f"orders/{CHAIN}-orders-11-13.zip": TYPO.reason,
    }
    assert contents(FolderStore(out)) == contents(archive.store)
    assert len(revisions(Archive(FolderStore(out), CHAIN))) == 1
    assert findings(out) == []


def refuse_from(number: int, request: Request) -> str:
    return "403 No" if request.number >= number else ""


def test_wherever_it_ends_the_next_run_goes_on(
    door: FaultProxy, archive: Archive, out: Path
) -> None:
    mirrored(door.url, out)
    count = len(door.requests)
    for last in range(3, count, 15):
        shutil.rmtree(out)
        begin = len(door.requests)
        door.on_request = partial(refuse_from, begin + last)
        with pytest.raises(ConfigError, match="is refused"):
            mirrored(door.url, out)
        if (out / "chains.json").exists():
            assert findings(out) == [], last
    door.on_request = lambda _: ""
    assert mirrored(door.url, out).zips == 69
    assert contents(FolderStore(out)) == contents(archive.store)


_MIRROR = """
import sys
from pathlib import Path
from tests.exporters.mirroring.test_mirror import mirrored
mirrored(sys.argv[1], Path(sys.argv[2]))
"""


def test_a_mirror_that_is_killed_is_the_archive_of_before(
    door: FaultProxy, archive: Archive, out: Path, tmp_path: Path
) -> None:
    mirrored(door.url, out)
    publish_zips(archive, segment_requests(tmp_path, 80_001, 80_010, THREE))
    reached = threading.Event()

    def stall(request: Request) -> str:
        if "trades-80001" not in request.path:
            return ""
        reached.set()
        return STALL

    door.on_request = stall
    with subprocess.Popen([sys.executable, "-c", _MIRROR, door.url, str(out)]) as process:
        assert reached.wait(60)
        process.kill()
    assert findings(out) == []
    door.released.set()
    door.on_request = lambda _: ""
    mirrored(door.url, out)
    assert contents(FolderStore(out)) == contents(archive.store)


def test_where_it_ends_amid_replacing_it_is_still_an_archive(
    door: FaultProxy, archive: Archive, out: Path, tmp_path: Path
) -> None:
    mirrored(door.url, out)
    before = shutil.copytree(out, tmp_path / "before")
    replace_orders(archive, tmp_path)

    def refuse(request: Request) -> str:
        return "403 No" if request.path.endswith("orders-11-13.zip") else ""

    door.on_request = refuse
    with pytest.raises(ConfigError, match="is refused"):
        mirrored(door.url, out)
    assert findings(out) == []
    zips = {k: v for k, v in contents(FolderStore(out)).items() if k.endswith(".zip")}
    assert zips.items() <= contents(FolderStore(before)).items()
    door.on_request = lambda _: ""
    mirrored(door.url, out)
    assert contents(FolderStore(out)) == contents(archive.store)


@pytest.mark.parametrize("damage", ["lost", "altered"])
@pytest.mark.parametrize("name", ["trades-20001-20010", "orders-1-10", "orders-11-13"])
def test_a_zip_that_the_archive_has_lost_or_altered_leaves_a_mirrors_shard_as_it_was(
    archive: Archive, out: Path, tmp_path: Path, name: str, damage: str
) -> None:
    table = name.partition("-")[0]
    key = f"{CHAIN}/{table}/{CHAIN}-{name}.zip"
    place = tmp_path / "source" / key
    whole = place.read_bytes()
    if damage == "lost":
        place.unlink()
    else:
        place.chmod(0o644)
        place.write_bytes(bytes([*whole[:-9], whole[-9] ^ 1, *whole[-8:]]))

    found = mirrored(str(tmp_path / "source"), out)

    (failure,) = found.failures
    assert f"{CHAIN}-{name}.zip" in str(failure)
    assert "try again, or tell its keeper" in str(failure)
    assert findings(out) == []
    there = {key for key in contents(FolderStore(out)) if key.endswith(".zip")}
    wanted = {key for key in contents(archive.store) if key.endswith(".zip")}
    assert there == wanted - {key}
    assert {f"{CHAIN}/{path}" for path in found.fetched} == there
    assert found.fetched_bytes == sum((out / path).stat().st_size for path in there)
    own, number = Archive(FolderStore(out), CHAIN).index().shards, int("20001" in name)
    assert own == {n: s for n, s in archive.index().shards.items() if n != number}
    words = ["fetch", str(tmp_path / "source"), "--all", "--out", str(out)]
    ended = CliRunner().invoke(strata, words, standalone_mode=False)
    assert isinstance(ended.exception, DamagedCopyError)
    assert exit_code(ended.exception) == 5

    place.write_bytes(whole)
    assert mirrored(str(tmp_path / "source"), out).failures == []
    assert contents(FolderStore(out)) == contents(archive.store)


def test_signatures_come_with_documents_that_are_the_same_to_the_byte(
    door: FaultProxy, archive: Archive, out: Path, tmp_path: Path
) -> None:
    (tmp_path / "strata.key").write_text(SECRET_KEY)
    signed = Archive(archive.store, CHAIN, Signer(tmp_path / "strata.key"))
    refresh(signed, [])
    mirrored(door.url, out)
    local = Archive(FolderStore(out), CHAIN)
    assert contents(local.store) == contents(archive.store)
    assert list(signature_findings(local, read_public_key(PUBLIC_KEY))) == []

    publish_zips(signed, segment_requests(tmp_path, 60_011, 60_020, THREE))
    door.on_request = lambda r: "404 No" if r.path.endswith("index.json.minisig") else ""
    mirrored(door.url, out)

    missing = contents(archive.store).keys() - contents(local.store).keys()
    assert missing == {f"{CHAIN}/index.json.minisig"}
    assert findings(out) == []


def test_an_archive_is_no_mirror_of_itself(archive: Archive, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is the archive itself"):
        mirror(archive, tmp_path / "source")
