"""The export of a range from copies that are damaged, stale, or go while it is read."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from exporters.archive.archive import Archive
from exporters.exports.range_export import RangeExport, RangeExporter
from exporters.zip_names import zip_name
from exporters.zips.layout import Layout
from exporters.zips.staging import PartStage
from tests.api.site_kit import CHAIN, FIRST, SECOND, THIRD, Site, small_site
from tests.archive_kit import name_shard, resealed, shard_file
from tests.damage_kit import rot
from tests.s3_kit import BucketServer, bucket_server
from tests.segments_kit import expected_member
from tests.transforms.warehouse_kit import render
from transforms.block_range import BlockRange
from transforms.errors import BusyError, IntegrityError, RangeError
from transforms.files import file_version
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import Store
from transforms.tables.registry import HISTORY_TABLES
from transforms.verifying.proofs import Proof, Proofs
from transforms.warehouse.manifests.manifest_rows import parse_receipts
from transforms.warehouse.questions.table_receipts import table_receipts

WHOLE = (FIRST.first, THIRD.last)


@dataclass
class Asked:
    """An exporter over a site, and what it warned of."""

    site: Site
    store: Store | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def exporter(self) -> RangeExporter:
        store = self.store or FolderStore(self.site.root / "archive")
        return RangeExporter(self.site.warehouse.cache, store, rendered_bytes=0)

    def export(
        self, prove_bytes: int | None = None, *, exporter: RangeExporter | None = None
    ) -> RangeExport:
        catalog = self.site.warehouse.loaded_catalog()
        return (exporter or self.exporter).export(
            catalog,
            "orders",
            *WHOLE,
            prove_bytes=prove_bytes,
            warn=self.warnings.append,
        )

    def bytes(self, prove_bytes: int | None = None) -> bytes:
        return b"".join(self.export(prove_bytes).layout.read())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Three segments, the first two published."""
    site = small_site(tmp_path_factory.mktemp("site"))
    site.publish([FIRST, SECOND])
    return site


@pytest.fixture(scope="module")
def sound(built: Site, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    asked = Asked(built.copied(tmp_path_factory.mktemp("sound") / "site"))
    found = asked.bytes()
    assert not asked.warnings
    segments = sorted(
        built.source_folder.glob("*.zip"), key=lambda path: int(path.stem.split("-")[-2])
    )
    with ZipFile(BytesIO(found)) as opened:
        assert opened.read(opened.namelist()[0]) == expected_member(segments, "orders")
    return found


@pytest.fixture
def asked(built: Site, tmp_path: Path) -> Asked:
    return Asked(built.copied(tmp_path / "site"))


def published(site: Site, blocks: BlockRange) -> Path:
    return site.root / "archive" / CHAIN / "orders" / zip_name(CHAIN, "orders", blocks)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def gone(path: Path) -> None:
    path.unlink()


def other(path: Path) -> None:
    """Put another whole ZIP there, by renaming as publishers do."""
    fresh = path.with_suffix(".fresh")
    shutil.copy(path, fresh)
    flip(fresh)
    fresh.replace(path)


@pytest.mark.parametrize("how", [flip, gone, other, rot])
@pytest.mark.parametrize("where", ["published", "waiting"])
@pytest.mark.parametrize("prove_bytes", [None, 0])
def test_what_changes_after_the_layout_ends_it_and_is_right_when_asked_again(
    asked: Asked,
    sound: bytes,
    how: Callable[[Path], None],
    where: str,
    prove_bytes: int | None,
) -> None:
    site = asked.site
    path = (
        published(site, SECOND) if where == "published" else site.stage.path(CHAIN, "orders", THIRD)
    )
    exporter = asked.exporter
    layout = asked.export(prove_bytes, exporter=exporter).layout

    how(path)

    got = bytearray()
    with pytest.raises((IntegrityError, BusyError), match=re.escape(str(path))):
        _read_into(got, layout)
    assert sound.startswith(bytes(got))
    again = asked.export(prove_bytes, exporter=exporter).layout
    assert b"".join(again.read()) == sound


@pytest.mark.parametrize("at", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("where", ["published", "waiting"])
def test_a_bit_that_flips_after_it_was_proven_ends_the_export(
    asked: Asked, sound: bytes, where: str, at: float
) -> None:
    assert asked.bytes() == sound
    site = asked.site
    waiting = site.stage.path(CHAIN, "orders", THIRD)
    path = published(site, SECOND) if where == "published" else waiting
    rot(path, int(path.stat().st_size * at))
    with pytest.raises(IntegrityError, match=re.escape(str(path))):
        asked.bytes()
    assert asked.bytes() == sound
    assert str(path) in asked.warnings[-1]


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as server:
        yield server


@pytest.fixture
def in_bucket(asked: Asked, server: BucketServer) -> Iterator[Asked]:
    """The same archive, in a bucket."""
    with server.store() as store:
        folder = FolderStore(asked.site.root / "archive")
        for held in folder.list():
            store.put_if_match(held.key, folder.path(held.key), None, "")
        yield replace(asked, store=store)


def test_from_a_bucket_come_the_same_bytes_and_each_object_is_proven_once(
    in_bucket: Asked, server: BucketServer, sound: bytes
) -> None:
    def reads(of: str) -> int:
        return sum(one.startswith("GET ") and one.endswith(of) for one in server.door.requests)

    server.door.requests.clear()
    in_bucket.export(prove_bytes=0)
    assert reads(".zip") == 0
    first = in_bucket.export().layout
    assert reads("-orders-1-20.zip") == reads("-orders-21-40.zip") == 1
    assert b"".join(first.read()) == sound

    server.door.requests.clear()
    in_bucket.export()
    assert reads(".zip") == reads(".json") == 0
    assert not in_bucket.warnings


@pytest.mark.parametrize("prove_bytes", [None, 0])
@pytest.mark.parametrize("content", [None, b"", b"another"])
def test_an_object_that_changes_in_a_bucket_ends_it_and_is_right_when_asked_again(
    in_bucket: Asked,
    server: BucketServer,
    sound: bytes,
    content: bytes | None,
    prove_bytes: int | None,
) -> None:
    assert in_bucket.store is not None
    exporter = in_bucket.exporter
    layout = in_bucket.export(prove_bytes, exporter=exporter).layout
    place = in_bucket.store.describe(f"{CHAIN}/orders/{CHAIN}-orders-{SECOND}.zip")
    bucket, _, key = place.removeprefix("s3://").partition("/")
    if content is None:
        server.client.delete_object(Bucket=bucket, Key=key)
    else:
        server.client.put_object(Bucket=bucket, Key=key, Body=content)

    with pytest.raises((IntegrityError, BusyError), match=re.escape(place)):
        _read_into(bytearray(), layout)
    again = in_bucket.export(prove_bytes, exporter=exporter).layout
    assert b"".join(again.read()) == sound
    (warning,) = in_bucket.warnings
    assert place in warning


def test_a_rendered_part_that_is_damaged_is_rendered_again(asked: Asked, sound: bytes) -> None:
    published(asked.site, FIRST).unlink()
    assert asked.bytes() == sound
    (path,) = (asked.site.warehouse.cache / "rendered").glob("*/orders/*.zip")
    flip(path)
    assert asked.bytes() == sound


def test_where_nothing_is_sound_there_is_no_layout(asked: Asked) -> None:
    flip(published(asked.site, SECOND))
    for path in (asked.site.warehouse.cache / "data" / "orders").iterdir():
        path.unlink()
    with pytest.raises(IntegrityError, match="orders of segment 21-40 is sound nowhere"):
        asked.export()
    assert str(published(asked.site, SECOND)) in asked.warnings[0]


@pytest.fixture
def deflated_otherwise(asked: Asked) -> Asked:
    """The second segment is published as another deflate level writes it."""
    site = asked.site
    shutil.rmtree(site.root / "archive")
    (receipt,) = (one for one in site.warehouse.receipts([SECOND]) if one.table == "orders")
    body = [render(site.warehouse, SECOND, "orders").removeprefix(receipt.schema.header)]
    stage = PartStage(site.stage.root, level=2)
    stage.write(receipt, body, stage.scratch)
    site.publish([SECOND], ["orders"])
    return asked


def test_before_the_first_byte_a_copy_with_other_bytes_of_the_same_text_will_do(
    deflated_otherwise: Asked, sound: bytes
) -> None:
    before = deflated_otherwise.bytes()
    flip(published(deflated_otherwise.site, SECOND))
    assert before != sound == deflated_otherwise.bytes()


def _read_into(got: bytearray, layout: Layout) -> None:
    for block in layout.read():
        got += block


def test_a_published_text_that_is_not_what_is_loaded_is_not_taken(
    asked: Asked, tmp_path: Path
) -> None:
    """A segment that was lost may have been loaded again from a file that says something else."""
    anew = Site(tmp_path / "anew")
    anew.add_segment(FIRST, range(60))
    anew.add_segment(SECOND, [0, 1], orders=7)
    anew.add_segment(THIRD)
    anew.load()
    export = Asked(anew, FolderStore(asked.site.root / "archive")).bytes()
    segments = [anew.source_folder / f"{CHAIN}-1-{blocks}.zip" for blocks in (FIRST, SECOND, THIRD)]
    with ZipFile(BytesIO(export)) as opened:
        assert opened.read(opened.namelist()[0]) == expected_member(segments, "orders")


def test_an_index_that_says_other_runs_than_the_zip_has_is_found_out(
    asked: Asked, sound: bytes
) -> None:
    def change(text: str) -> str:
        lines = text.splitlines(keepends=True)
        at = next(n for n, line in enumerate(lines) if '"path":"orders/' in line)
        head, _, rest = lines[at].partition('"body":[')
        number, _, tail = rest.partition(",")
        lines[at] = f'{head}"body":[{int(number) + 1},{tail}'
        return "".join(lines)

    _change_index(asked.site, change)
    assert asked.bytes() == sound
    assert "has other runs than the index says" in asked.warnings[0]


@pytest.mark.parametrize("content", ["", "{}", '{\n"format":2,\n"chain_id":', "no JSON"])
def test_an_index_that_cannot_be_read_is_no_reason_to_give_nothing(
    asked: Asked, sound: bytes, content: str
) -> None:
    (path,) = (asked.site.root / "archive" / CHAIN / "index").glob("*.json")
    path.write_text(content)
    assert asked.bytes() == sound
    (warning,) = asked.warnings
    assert re.search(r"index/000000000\.\w+\.json has other bytes than index\.json says", warning)


def test_an_index_that_changed_is_read_again(asked: Asked, sound: bytes) -> None:
    assert asked.bytes() == sound
    archive = Archive(FolderStore(asked.site.root / "archive"), CHAIN)
    whole = archive.read(shard_file(archive)) or b""
    _change_index(asked.site, lambda text: text.replace('"path":"orders/', '"path":"others/'))
    assert asked.bytes() == sound
    assert len(asked.warnings) == 1
    name_shard(archive, whole)
    asked.site.publish([THIRD])
    shutil.rmtree(asked.site.warehouse.cache / "data" / "orders")
    assert asked.bytes() == sound
    assert len(asked.warnings) == 1


def _change_index(site: Site, change: Callable[[str], str]) -> None:
    archive = Archive(FolderStore(site.root / "archive"), CHAIN)
    text = (archive.read(shard_file(archive)) or b"").decode()
    name_shard(archive, resealed(change(text).encode()))


def test_a_warehouse_gives_of_any_blocks_what_its_receipts_say(built: Site) -> None:
    catalog = built.warehouse.loaded_catalog()
    for table in HISTORY_TABLES:
        for first, last in ((1, 1), (1, 50), (20, 21), (41, 60), (0, 0), (51, 99)):
            blocks = BlockRange(first, last)
            assert parse_receipts(table_receipts(catalog, table, blocks)) == [
                replace(receipt, raw_cells={})
                for receipt in built.warehouse.receipts()
                if receipt.table == table and receipt.blocks.overlaps(blocks)
            ]
    assert [segment.blocks for segment in catalog.segments()] == [FIRST, SECOND, THIRD]
    assert catalog.data_path(SECOND, "nothing") is None
    with pytest.raises(RangeError, match="does not hold the segment 51-60"):
        catalog.data_path(BlockRange(51, 60), "blocks")


def test_a_proof_counts_only_for_the_same_state_and_hash(tmp_path: Path) -> None:
    proofs = Proofs(tmp_path / "proofs.sqlite")
    proof = Proof("a place", "a state", "a recorded hash", "its own hash")
    proofs.keep(proof)
    assert proofs.find("a place", "a state", "a recorded hash") == proof
    assert proofs.find("a place", "another state", "a recorded hash") is None
    assert proofs.find("a place", "a state", "another hash") is None
    assert proofs.find("another place", "a state", "a recorded hash") is None
    beside = replace(proof, place="place beside")
    proofs.keep(*[beside, replace(proof, place="unidentified", state="")])
    asked = [replace(proof, place=p) for p in ("unidentified", "place beside", "a place")]
    assert proofs.find_each([*asked, replace(beside, recorded="another hash")]) == [
        None,
        beside,
        proof,
        None,
    ]
    proofs.keep(replace(proof, state="a later state"))
    assert proofs.find("a place", "a state", "a recorded hash") is None
    proofs.close()
    assert proofs.find("a place", "a later state", "a recorded hash") is not None


def test_what_has_no_version_is_not_remembered(tmp_path: Path) -> None:
    proofs = Proofs(tmp_path / "proofs.sqlite")
    proofs.keep(Proof("nowhere", "", "a recorded hash"))
    assert proofs.find("nowhere", "", "a recorded hash") is None


@pytest.mark.parametrize("content", [b"no database at all", b"SQLite format 3\0 but cut"])
def test_a_record_of_proofs_that_is_damaged_is_made_anew(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "proofs.sqlite"
    path.write_bytes(content)
    proof = Proof("a place", "a state", "a recorded hash", "its own hash")
    Proofs(path).keep(proof)
    assert Proofs(path).find("a place", "a state", "a recorded hash") == proof


def test_a_record_of_proofs_with_a_damaged_page_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "proofs.sqlite"
    proofs = Proofs(path)
    proofs.keep(*(Proof(f"place {number}", "a state", "a hash") for number in range(1000)))
    proofs.close()
    whole = path.read_bytes()
    page = int.from_bytes(whole[16:18], "big")
    path.write_bytes(whole[:page] + b"\xff" * (len(whole) - page))
    damaged = Proofs(path)
    assert damaged.find("place 1", "a state", "a hash") is None
    damaged.keep(proof := Proof("place 1", "a state", "a hash"))
    damaged.close()
    assert Proofs(path).find("place 1", "a state", "a hash") == proof


def test_where_the_record_cannot_be_written_proofs_last_as_long_as_the_process(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("no folder")
    proofs = Proofs(tmp_path / "file" / "proofs.sqlite")
    proof = Proof("a place", "a state", "a recorded hash", "its own hash")
    proofs.keep(proof)
    assert proofs.find("a place", "a state", "a recorded hash") == proof


def test_many_threads_over_two_connections_share_one_record(tmp_path: Path) -> None:
    one, two = Proofs(tmp_path / "proofs.sqlite"), Proofs(tmp_path / "proofs.sqlite")

    def keep(number: int) -> None:
        keeper = one if number % 2 else two
        keeper.keep(Proof(f"place {number}", "state", "recorded", "sha256"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(keep, range(200)))
    for number in range(200):
        assert one.find(f"place {number}", "state", "recorded") is not None


def test_a_file_that_is_touched_is_another_state(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    before = file_version(path.stat())
    path.write_bytes(b"x")
    assert file_version(path.stat()) != before
