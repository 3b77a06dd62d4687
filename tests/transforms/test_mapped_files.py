"""Mapped files: what was written is read, and nothing that is not whole is believed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.errors import IntegrityError
from transforms.mapped_files import (
    Mapped,
    MappedFolder,
    numbers_section,
    packed,
    texts_sections,
)

_TEXTS = st.lists(st.text("ab\0é☃\U0001f600", max_size=12)).map(sorted)


def _folder(path: Path) -> MappedFolder:
    return MappedFolder(path / "mapped", path / "scratch")


def _mapped(data: bytes) -> Mapped:
    return Mapped(memoryview(data))


@given(texts=_TEXTS, wanted=st.text("ab\0é☃\U0001f600", max_size=12))
def test_texts_are_found_as_in_a_list(texts: list[str], wanted: str) -> None:
    held = _mapped(packed(None, texts_sections("names", texts))).texts("names")
    assert [*held] == held[:] == texts
    for low in range(0, len(texts) + 1, 3):
        for find, plain in ((held.left, bisect_left), (held.right, bisect_right)):
            assert find(wanted, low, len(texts)) == plain(texts, wanted, low, len(texts))


def test_sections_of_any_length_are_read_as_they_were_written() -> None:
    sections = {"one": b"x", "numbers": numbers_section("Q", [0, 2**64 - 1]), "none": b""}
    held = _mapped(packed({"said": [1, None]}, sections))
    assert held.said == {"said": [1, None]}
    assert bytes(held.bytes("one")) == b"x"
    assert [*held.numbers("numbers", "Q")] == [0, 2**64 - 1]
    assert bytes(held.bytes("none")) == b""
    assert "none" in held
    assert "other" not in held


def test_a_file_that_was_cut_short_or_changed_is_not_believed() -> None:
    data = packed("what", {"numbers": numbers_section("q", range(20))})
    for length in range(len(data)):
        with pytest.raises(IntegrityError):
            _mapped(data[:length])
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        with pytest.raises(IntegrityError):
            _mapped(bytes(changed))


def test_a_file_is_made_once_and_again_where_it_is_damaged(tmp_path: Path) -> None:
    folder, made = _folder(tmp_path), []

    def make() -> bytes:
        made.append(1)
        return packed(len(made), {"numbers": numbers_section("q", range(9))})

    assert [folder.get("one", make).said for _ in range(2)] == [1, 1]
    path = tmp_path / "mapped" / "one"
    held = folder.get("one", make)
    for damage in (path.read_bytes()[:-8], b"", bytes(path.stat().st_size)):
        path.unlink()  # never in place: somebody has it mapped
        path.write_bytes(damage)
        assert [*folder.get("one", make).numbers("numbers", "q")] == [*range(9)]
    assert len(made) == 4
    assert [*held.numbers("numbers", "q")] == [*range(9)]


def test_where_no_file_can_be_written_there_is_one_in_memory(tmp_path: Path) -> None:
    (tmp_path / "mapped").write_text("a file, where a folder should be")
    held = _folder(tmp_path).get("one", lambda: packed("here", {}))
    assert held.said == "here"


def test_what_is_not_kept_is_removed_and_stays_readable(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    for name in ("one", "two"):
        folder.put(name, packed(name, {"numbers": numbers_section("q", range(5000))}))
    gone = folder.find("one")
    folder.keep({"two"})
    assert [path.name for path in (tmp_path / "mapped").iterdir()] == ["two"]
    assert folder.find("one") is None
    assert gone is not None
    assert [*gone.numbers("numbers", "q")] == [*range(5000)]
