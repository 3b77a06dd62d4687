"""Shards of another state under the newest index: a reader gives the newest text, or refuses."""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path

import pytest

from exporters.archive.archive import Archive
from pipelines.commands.failures import exit_code
from pipelines.settings import Settings
from tests.archive_kit import shard_file
from tests.pipelines.kit import make_segment, site_settings
from tests.pipelines.place_kit import Place, placed
from tests.segments_kit import KIT_CHAIN, table_rows
from transforms.errors import IntegrityError
from transforms.stores.folder_store import FolderStore


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """An archive of two segments, and in `before` the same archive with the first one only."""
    settings = site_settings(tmp_path_factory.mktemp("model"))
    with pytest.MonkeyPatch.context() as patch:
        place = placed(settings, patch)
        for number in (0, 1):
            rows = table_rows("orders", *[{}] * (number + 1), first=10 * number + 1)
            make_segment(settings, number, tables={"orders": rows})
            assert [place.run(command)[0] for command in ("load", "publish")] == [0, 0]
            if not number:
                shutil.copytree(place.archive, place.archive.with_name("before"))
    return settings


@pytest.fixture
def place(model: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    shutil.copytree(Path(model.source).parent, tmp_path, dirs_exist_ok=True)
    return placed(site_settings(tmp_path), monkeypatch)


def fetch(place: Place, *words: str) -> tuple[int, str]:
    out = str(place.archive.with_name("got"))
    return place.run("fetch", str(place.archive), *words, "--out", out)


def shard_of(archive: Path) -> Path:
    return archive / KIT_CHAIN / shard_file(Archive(FolderStore(archive), KIT_CHAIN))


RANGE = ("--table", "orders", "--from", "1", "--to", "20")


def test_older_shards_among_the_newest_documents_change_nothing(place: Place) -> None:
    index = place.archive / KIT_CHAIN / "index"
    shutil.copytree(
        place.archive.with_name("before") / KIT_CHAIN / "index", index, dirs_exist_ok=True
    )
    assert len([*index.glob("*.json")]) == 2
    assert fetch(place, *RANGE)[0] == 0
    with zipfile.ZipFile(place.archive.with_name("got") / "kit-chain-orders-1-20.zip") as file:
        (member,) = file.namelist()
        assert file.read(member).count(b"\n") == 4
    assert fetch(place, "--all")[0] == 0
    assert len([*place.archive.with_name("got").rglob("*orders*.zip")]) == 3


@pytest.mark.parametrize("words", [RANGE, ("--all",)])
@pytest.mark.parametrize("is_gone", [True, False])
def test_a_shard_without_the_hash_in_the_index_is_refused(
    place: Place, words: tuple[str, ...], is_gone: bool
) -> None:
    shard = shard_of(place.archive)
    older = shard_of(place.archive.with_name("before"))
    shard.unlink()
    if not is_gone:
        shutil.copy(older, shard)
    with pytest.raises(IntegrityError, match=re.escape(str(shard))) as caught:
        fetch(place, *words)
    assert exit_code(caught.value) == 5
    assert place.run("publish")[0] == 0
    assert fetch(place, *words)[0] == 0
