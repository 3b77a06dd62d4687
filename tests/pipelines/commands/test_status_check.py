"""`strata status --check` notices removed documents and what checks have found."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.settings import Settings
from tests.pipelines.kit import make_segment, site_settings
from tests.pipelines.place_kit import Place, flip, placed
from transforms.stores.folder_store import FolderStore


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    settings = site_settings(tmp_path_factory.mktemp("model"))
    with pytest.MonkeyPatch.context() as patch:
        place = placed(settings, patch)
        for number in (0, 1):
            make_segment(settings, number)
            for command in ("load", "publish"):
                assert place.run(command)[0] == 0
            if not number:
                shutil.copytree(place.archive, place.archive.with_name("before"))
    return settings


@pytest.fixture
def place(model: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    shutil.copytree(Path(model.source).parent, tmp_path, dirs_exist_ok=True)
    return placed(site_settings(tmp_path), monkeypatch)


def restore_old_shards(place: Place) -> None:
    before = place.archive.with_name("before") / place.chain.name / "index"
    for path in before.glob("*"):
        target = place.chain / "index" / path.name
        target.unlink(missing_ok=True)
        shutil.copy(path, target)


_DAMAGES: dict[str, Callable[[Place], object]] = {
    "chains.json": lambda place: (place.archive / "chains.json").unlink(),
    "the index": lambda place: shutil.rmtree(place.chain / "index"),
    "old shards": restore_old_shards,
    "a hash list": lambda place: next(place.chain.glob("index/*.sha256")).unlink(),
    "conditions.json": lambda place: flip(place.chain / "conditions.json"),
    "SHA256SUMS": lambda place: (place.chain / "SHA256SUMS").unlink(),
    "schema.json": lambda place: (place.chain / "schema.json").unlink(),
}


@pytest.mark.parametrize("what", _DAMAGES)
def test_a_document_that_is_gone_or_another_is_named_until_it_is_made_again(
    place: Place, what: str
) -> None:
    assert place.run("status", "--check") == (0, "nothing is left to do\n")
    _DAMAGES[what](place)
    for _ in range(2):
        code, said = place.run("status", "--check")
        assert code == 1
        assert "documents are missing or differ from SHA256SUMS: strata publish; " in said
    assert place.run("publish")[0] == 0
    assert place.run("status", "--check")[0] == 0


def test_documents_that_did_not_change_are_not_read_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place.run("status", "--check")[0] == 0
    keys = Counter[str]()
    read = FolderStore.read

    def counted(self: FolderStore, key: str, *arguments: Any, **named: Any) -> bytes:
        keys[key.rpartition("/")[2]] += not key.startswith("log/")
        return read(self, key, *arguments, **named)

    monkeypatch.setattr(FolderStore, "read", counted)
    assert place.run("status", "--check")[0] == 0
    assert (+keys).keys() == {"index.json", "SHA256SUMS", "chains.json"}


def test_status_tells_the_last_checks_and_fails_after_findings(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "last complete strata verify on this machine: none" in place.run("status")[1]
    monkeypatch.setenv("STRATA_VERIFY_DAYS", "7")
    assert "no complete strata verify ended here in 7 days" in place.run("status", "--check")[1]
    monkeypatch.delenv("STRATA_VERIFY_DAYS")
    shutil.rmtree(place.chain / "trades")

    assert place.run("status", "--check")[0] == 0  # it lists no ZIPs
    for words in (["verify", "--quick"], ["verify"]):
        assert place.run(*words)[0] == 5
        code, said = place.run("status", "--check")
        assert (code, said[:22]) == (1, "the last strata verify")
    assert place.run("publish")[0] == 0
    assert place.run("verify", "--quick")[0] == 0
    assert place.run("status", "--check")[0] == 1  # the complete check has to be repeated
    assert place.run("verify")[0] == 0
    monkeypatch.setenv("STRATA_VERIFY_DAYS", "7")
    assert place.run("status", "--check")[0] == 0
    checks = place.json("status")[1]["verified"]
    assert [(kind, check["findings"]) for kind, check in checks.items()] == [
        *(("quick", 0), ("complete", 0))
    ]
    flip(place.chain / "schema.json")
    assert place.run("verify", "--quick")[0] == 5
    assert place.run("publish")[0] == 0
    assert place.run("status", "--check")[0] == 1
    assert place.run("verify", "--quick")[0] == 0
    assert place.run("status", "--check")[0] == 0
