"""The quarantine folder: what it keeps of a refused file, and when it lets go."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.objects import ObjectInfo
from transforms.segments.inventory import Refusal
from transforms.segments.quarantine import Quarantine

_INFO = ObjectInfo("kit-chain-1-1-1000.zip", 10, "v1")
_HOSTILE_KEYS = [
    *(
        "../../etc/passwd.zip",
        "a/b.zip",
        "a_b.zip",
        ".zip",
        "..zip",
        "x" * 900 + ".zip",
        "鏈" * 300,
        "é😀.zip",
    ),
    *("CON.zip", "new\nline.zip", "\udcff.zip", "quo'te\".zip", "%2e%2e.zip", "a\\b.zip"),
]


def _put(quarantine: Quarantine, key: str = _INFO.key, reason: str = "it is broken") -> None:
    quarantine.put(Refusal(ObjectInfo(key, 10, "v1"), reason))


def test_nothing_is_quarantined_at_first(tmp_path: Path) -> None:
    quarantine = Quarantine(tmp_path / "quarantine")
    assert quarantine.files() == []
    assert quarantine.find(_INFO.key) is None
    assert not (tmp_path / "quarantine").exists()


def test_a_refusal_is_kept_with_its_reason_and_its_file(tmp_path: Path) -> None:
    file = tmp_path / "fetched"
    file.write_bytes(b"PK broken")
    quarantine = Quarantine(tmp_path / "quarantine")
    quarantine.put(Refusal(_INFO, "it is broken: fetch it again, é"), file)
    (kept,) = Quarantine(tmp_path / "quarantine").files()
    assert (kept.key, kept.reason) == (_INFO.key, "it is broken: fetch it again, é")
    assert kept.refusal.info == _INFO
    assert kept.was_read
    assert kept.copy is not None
    assert kept.copy.read_bytes() == b"PK broken"


def test_a_file_refused_by_its_name_has_no_copy(tmp_path: Path) -> None:
    quarantine = Quarantine(tmp_path)
    _put(quarantine, "backup.zip")
    (kept,) = quarantine.files()
    assert kept.copy is None


def test_a_refusal_is_found_by_its_key(tmp_path: Path) -> None:
    quarantine = Quarantine(tmp_path)
    _put(quarantine)
    found = quarantine.find(_INFO.key)
    assert found is not None
    assert found.refusal == Refusal(_INFO, "it is broken")
    assert not found.was_read
    assert quarantine.find("kit-chain-1-1001-2000.zip") is None


def test_a_later_refusal_replaces_the_earlier(tmp_path: Path) -> None:
    quarantine = Quarantine(tmp_path)
    _put(quarantine)
    quarantine.put(Refusal(ObjectInfo(_INFO.key, 12, "v2"), "it is still broken"))
    (kept,) = quarantine.files()
    assert kept.reason == "it is still broken"
    assert kept.refusal.info.version == "v2"


def test_a_copy_of_an_earlier_version_does_not_stand_for_a_later_one(tmp_path: Path) -> None:
    file = tmp_path / "fetched"
    file.write_bytes(b"first")
    quarantine = Quarantine(tmp_path / "quarantine")
    quarantine.put(Refusal(_INFO, "broken"), file)
    quarantine.put(Refusal(ObjectInfo(_INFO.key, 12, "v2"), "overlaps another"))
    (kept,) = quarantine.files()
    assert kept.copy is None


def test_a_released_file_is_forgotten_with_its_copy(tmp_path: Path) -> None:
    file = tmp_path / "fetched"
    file.write_bytes(b"PK")
    quarantine = Quarantine(tmp_path / "quarantine")
    quarantine.put(Refusal(_INFO, "broken"), file)
    _put(quarantine, "other.zip")
    quarantine.release([_INFO.key, "never refused.zip"])
    assert [kept.key for kept in quarantine.files()] == ["other.zip"]
    assert len(list((tmp_path / "quarantine").iterdir())) == 1


def test_files_are_listed_by_key(tmp_path: Path) -> None:
    quarantine = Quarantine(tmp_path)
    for key in ("b.zip", "a.zip", "c.zip"):
        _put(quarantine, key)
    assert [kept.key for kept in quarantine.files()] == ["a.zip", "b.zip", "c.zip"]


@pytest.mark.parametrize("key", _HOSTILE_KEYS, ids=lambda key: repr(key[:20]))
def test_no_key_leaves_the_folder(tmp_path: Path, key: str) -> None:
    folder = tmp_path / "deep" / "quarantine"
    quarantine = Quarantine(folder)
    _put(quarantine, key)
    assert [path.parent for path in tmp_path.rglob("*") if path.is_file()] == [folder]
    assert quarantine.find(key) is not None
    quarantine.release([key])
    assert quarantine.files() == []


def test_keys_that_look_alike_are_kept_apart(tmp_path: Path) -> None:
    quarantine = Quarantine(tmp_path)
    for key in _HOSTILE_KEYS:
        _put(quarantine, key, f"reason of {key}")
    assert {kept.key: kept.reason for kept in quarantine.files()} == {
        key: f"reason of {key}" for key in _HOSTILE_KEYS
    }


@settings(max_examples=30, deadline=None)
@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=200), st.text(max_size=50))
def test_any_key_and_reason_come_back(
    tmp_path_factory: pytest.TempPathFactory, key: str, reason: str
) -> None:
    quarantine = Quarantine(tmp_path_factory.mktemp("quarantine"))
    _put(quarantine, key, reason)
    assert [(kept.key, kept.reason) for kept in quarantine.files()] == [(key, reason)]


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"key": "a.zip"}', b"\xff"], ids=repr)
def test_a_record_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path, text: bytes) -> None:
    quarantine = Quarantine(tmp_path)
    _put(quarantine, "good.zip")
    (tmp_path / "bad.json").write_bytes(text)
    assert [kept.key for kept in quarantine.files()] == ["good.zip"]
