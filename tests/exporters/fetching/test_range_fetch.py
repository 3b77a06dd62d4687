"""One table over a range, fetched: what arrives, what is not fetched again, what goes wrong."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporters.archive.archive import Archive
from exporters.exports.copies import DamagedCopyError
from exporters.fetching.fetch_folder import FetchFolder, choose_chain, opened_archive
from exporters.fetching.range_fetch import RangeFetch, fetch_range
from exporters.fetching.range_plan import choose_blocks
from tests.archive_kit import CHAIN, name_shard, shard_file
from tests.exporters.fetching.archives import make_archive
from tests.fault_proxy import CUT_THE_ANSWER, FLIP_THE_ANSWER, FaultProxy, Request
from tests.web_kit import web_server
from transforms.block_range import BlockRange
from transforms.errors import BusyError, ConfigError, IntegrityError, RangeError
from transforms.sealed import seal_text
from transforms.stores.folder_store import FolderStore

ORDERS = f"{CHAIN}/orders/{CHAIN}-orders"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_archive(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def right(model: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Orders over all blocks, from the archive's folder."""
    return fetch(str(model), tmp_path_factory.mktemp("right")).path.read_bytes()


@pytest.fixture
def archive(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "source"))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def door(archive: Path) -> Iterator[FaultProxy]:
    """A proxy before a web server that knows ranges."""
    with web_server(archive) as url:
        proxy = FaultProxy(url)
        yield proxy
        proxy.stop()


def fetch(
    address: str,
    out: Path,
    first: int | None = None,
    last: int | None = None,
    table: str = "orders",
) -> RangeFetch:
    with opened_archive(address) as store:
        source = choose_chain(store, None)
        if first is None or last is None:
            blocks = choose_blocks(source, table, None, None)
        else:
            blocks = BlockRange(first, last)
        return fetch_range(source, table, blocks, out, jobs=3)


def opened(address: str) -> None:
    with opened_archive(address):
        pass


def arrived(door: FaultProxy, out: Path) -> Path:
    """Where the bytes of orders over 14-20 lie until all have arrived."""
    with opened_archive(door.url) as store:
        entries = choose_chain(store, None).shard(0).entries
    (entry,) = (e for e in entries if e.path.endswith("orders-14-20.zip"))
    return FetchFolder(out).scratch / f"{entry.sha256}.part"


def zips_asked(door: FaultProxy) -> list[str]:
    return [one for one in door.requests if one.endswith(".zip")]


def test_a_folder_is_read_where_it_is(model: Path, out: Path) -> None:
    found = fetch(str(model), out)
    assert found.fetched_bytes == 0
    assert found.path.name == f"{CHAIN}-orders-1-30.zip"
    assert {p.name for p in out.iterdir()} - {".strata-scratch"} == {
        found.path.name,
        f"{found.path.name}.sha256",
    }
    with zipfile.ZipFile(found.path) as whole:
        assert whole.testzip() is None
        assert whole.namelist() == [f"{CHAIN}-orders-1-1-20.csv", f"{CHAIN}-orders-25-21-30.csv"]
        texts = b"".join(whole.read(name) for name in whole.namelist())
    assert texts.count(b"of\n") == 2000 * 4


def test_the_hash_file_beside_the_range_says_its_hash(model: Path, out: Path) -> None:
    found = fetch(str(model), out, 1, 13)
    assert found.sha256 == hashlib.sha256(found.path.read_bytes()).hexdigest()
    subprocess.run(["sha256sum", "-c", f"{found.path.name}.sha256"], cwd=out, check=True)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_web_server_gives_the_same_bytes_as_the_folder(
    model: Path, right: bytes, out: Path, ranges: bool
) -> None:
    with web_server(model, ranges=ranges) as url:
        found = fetch(url, out)
    assert found.path.read_bytes() == right
    assert [one.path.rpartition("orders-")[2] for one in found.zips] == [
        "1-10.zip",
        "11-13.zip",
        "14-20.zip",
        "21-30.zip",
    ]
    assert found.fetched_bytes == sum(one.bytes for one in found.zips)
    assert not list((out / ".strata-scratch/fetch").glob("*.part"))


def test_what_was_fetched_lies_as_in_the_archive_and_is_not_fetched_again(
    door: FaultProxy, right: bytes, out: Path
) -> None:
    fetch(door.url, out, 1, 13)
    subprocess.run(
        ["sha256sum", "-c", f"{CHAIN}-orders-1-10.zip.sha256"],
        cwd=out / CHAIN / "orders",
        check=True,
    )
    door.requests.clear()
    assert fetch(door.url, out).path.read_bytes() == right
    assert sorted(zips_asked(door)) == [f"GET /{ORDERS}-14-20.zip", f"GET /{ORDERS}-21-30.zip"]
    door.requests.clear()

    again = fetch(door.url, out)

    assert (again.fetched_bytes, zips_asked(door)) == (0, [])


def test_a_range_that_was_changed_since_is_made_again(
    door: FaultProxy, right: bytes, out: Path
) -> None:
    path = fetch(door.url, out).path
    path.write_bytes(b"something else")
    again = fetch(door.url, out)
    assert (again.fetched_bytes, path.read_bytes()) == (0, right)


def test_a_zip_that_was_damaged_since_is_fetched_again(
    door: FaultProxy, right: bytes, out: Path
) -> None:
    path = fetch(door.url, out).path
    path.unlink()
    held = out / f"{ORDERS}-14-20.zip"
    data = held.read_bytes()
    held.write_bytes(data[:100] + b"!" + data[101:])
    assert fetch(door.url, out).path.read_bytes() == right
    assert held.read_bytes() == data


def test_a_connection_that_is_cut_is_gone_on_with_where_it_ended(
    door: FaultProxy, right: bytes, out: Path
) -> None:
    asked: list[str] = []

    def cut(request: Request) -> str:
        if not request.path.endswith("14-20.zip"):
            return ""
        asked.append(request.header("range"))
        return CUT_THE_ANSWER if len(asked) <= 2 else ""

    door.on_request = cut
    assert fetch(door.url, out).path.read_bytes() == right
    size = (out / f"{ORDERS}-14-20.zip").stat().st_size
    half = size // 2
    assert asked == ["", f"bytes={half}-", f"bytes={half + (size - half) // 2}-"]


def test_a_server_that_knows_no_ranges_sends_it_all_once_more(
    archive: Path, right: bytes, out: Path
) -> None:
    with web_server(archive, ranges=False) as url:
        proxy = FaultProxy(url)
        faults = iter([CUT_THE_ANSWER])
        proxy.on_request = lambda r: next(faults, "") if r.path.endswith("14-20.zip") else ""
        assert fetch(proxy.url, out).path.read_bytes() == right
        proxy.stop()


def test_a_bit_that_flips_on_the_way_is_found_and_the_zip_fetched_again(
    door: FaultProxy, right: bytes, out: Path
) -> None:
    faults = iter([FLIP_THE_ANSWER])
    door.on_request = lambda r: next(faults, "") if r.path.endswith("14-20.zip") else ""
    assert fetch(door.url, out).path.read_bytes() == right
    assert zips_asked(door).count(f"GET /{ORDERS}-14-20.zip") == 2


def test_bytes_from_before_that_are_of_another_zip_do_no_harm(
    door: FaultProxy, right: bytes, out: Path
) -> None:
    FetchFolder(out).scratch.mkdir(parents=True)
    arrived(door, out).write_bytes(b"x" * 1000)
    assert fetch(door.url, out).path.read_bytes() == right


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "is not there, but the index names it"),
        (b"!", "hashes to"),
        (b"", r"has \d+ bytes, the index says"),
    ],
)
def test_a_zip_that_is_sound_nowhere_ends_it_with_its_name(
    door: FaultProxy, archive: Path, out: Path, content: bytes | None, what: str
) -> None:
    place = archive / f"{ORDERS}-14-20.zip"
    data = place.read_bytes()
    place.unlink()
    if content is not None:
        place.write_bytes(data[:50] + content + data[51:] if content else data + b"more")
    with pytest.raises(DamagedCopyError, match=f"orders-14-20.zip ({what})"):
        fetch(door.url, out)
    assert not (out / f"{CHAIN}-orders-1-30.zip").exists()
    assert not (out / f"{ORDERS}-14-20.zip").exists()


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (r'"sha256":"[0-9a-f]{64}"', '"sha256":"../../../escaped"', "cannot hash to"),
        (f'"path":"orders/{CHAIN}-orders-14', f'"path":"../{CHAIN}-orders-14', "is not named as"),
    ],
)
def test_an_index_that_lies_writes_nowhere_else(
    archive: Path, out: Path, tmp_path: Path, old: str, new: str, what: str
) -> None:
    source = Archive(FolderStore(archive), CHAIN)
    text = (source.read(shard_file(source)) or b"").decode()
    text = re.sub(r',\n"sha256":"[0-9a-f]{64}"\n\}\n\Z', "\n}\n", text)
    name_shard(source, seal_text(re.sub(old, new, text).encode()))
    with web_server(archive) as url, pytest.raises(IntegrityError, match=what):
        fetch(url, out)
    assert {path.name for path in tmp_path.iterdir()} <= {"source", "out"}


def test_a_zip_of_a_folder_that_is_damaged_is_not_joined(archive: Path, out: Path) -> None:
    (archive / f"{ORDERS}-14-20.zip").write_bytes(b"damaged")
    with pytest.raises(DamagedCopyError, match=r"orders-14-20\.zip has 7 bytes"):
        fetch(str(archive), out)


@pytest.mark.parametrize(
    ("first", "last", "what"),
    [
        (5, 30, "block 5 is not the first block of a segment; the nearest are 1 and 11"),
        (1, 25, "block 25 is not the last block of a segment; the nearest are 20 and 30"),
        (1, 10**12, "the archive holds 1-30"),
    ],
)
def test_a_range_that_is_not_right_is_told_what_would_be(
    model: Path, out: Path, first: int, last: int, what: str
) -> None:
    with pytest.raises(RangeError, match=what):
        fetch(str(model), out, first, last)


def test_a_table_that_there_is_not_is_refused(model: Path, out: Path) -> None:
    with pytest.raises(RangeError, match="is no table of the network's history"):
        fetch(str(model), out, table="parties")


def test_a_place_without_an_archive_is_told_so(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no archive at"):
        opened(str(tmp_path))
    with web_server(tmp_path) as url, pytest.raises(ConfigError, match="there is no archive at"):
        opened(url)
    (tmp_path / "chains.json").write_text("<html>")
    with web_server(tmp_path) as url, pytest.raises(ConfigError, match="there is no archive at"):
        opened(url)
    (tmp_path / "chains.json").write_text("chains")
    with web_server(tmp_path) as url, pytest.raises(ConfigError, match="is no list of chains"):
        opened(url)
    with pytest.raises(ConfigError, match=r"no chain .net-2. here: .* has net-1"):
        choose_chain(FolderStore(model), "net-2")


def test_two_do_not_fetch_into_one_folder(model: Path, out: Path) -> None:
    with FetchFolder(out).opened(), pytest.raises(BusyError, match="another process fetches into"):
        fetch(str(model), out)


def test_a_file_is_no_folder(model: Path, out: Path) -> None:
    out.write_bytes(b"")
    with pytest.raises(ConfigError, match="is no folder: name another one with --out"):
        fetch(str(model), out)


_FETCH = """
import resource, sys
from pathlib import Path
from tests.exporters.fetching.test_range_fetch import fetch
size = int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
fetch(sys.argv[1], Path(sys.argv[2]))
"""


def test_a_full_disk_is_said_and_gone_on_from(door: FaultProxy, right: bytes, out: Path) -> None:
    full = subprocess.run(
        [sys.executable, "-c", _FETCH, door.url, str(out), "5000"], capture_output=True, text=True
    )
    assert f"File too large: '{out}" in full.stderr
    partials = {p.name: p.stat().st_size for p in (out / ".strata-scratch/fetch").glob("*.part")}
    assert 5000 in partials.values()
    door.requests.clear()
    assert fetch(door.url, out).path.read_bytes() == right


def test_who_was_killed_goes_on_with_what_had_arrived(
    door: FaultProxy, right: bytes, out: Path
) -> None:
    def stall(request: Request) -> str:
        return (
            "stall"
            if request.path.endswith("14-20.zip") and request.header("range")
            else cut(request)
        )

    def cut(request: Request) -> str:
        return CUT_THE_ANSWER if request.path.endswith("14-20.zip") else ""

    door.on_request = stall
    process = subprocess.Popen(
        [sys.executable, "-c", _FETCH, door.url, str(out), str(2**40)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    while zips_asked(door).count(f"GET /{ORDERS}-14-20.zip") < 2:
        assert process.poll() is None
    process.kill()
    process.wait()
    door.released.set()
    held = arrived(door, out).stat().st_size
    asked: list[str] = []
    door.on_request = lambda request: asked.append(request.header("range"))

    assert fetch(door.url, out).path.read_bytes() == right

    assert f"bytes={held}-" in asked
