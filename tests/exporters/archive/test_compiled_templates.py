"""Compiled templates are kept as compiled modules are, and never decide what a page says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment

from exporters.archive.compiled_templates import CompiledTemplates

_FIRST, _SECOND = "a {{ x }}", "b {{ x }}"


def _page(text: str) -> str:
    """A page of a process that has compiled nothing yet."""
    environment = Environment(loader=DictLoader({"page": text}), bytecode_cache=CompiledTemplates())
    return environment.get_template("page").render(x=1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Python keeps compiled modules, and so templates."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    folder = CompiledTemplates().folder
    folder.mkdir(parents=True)
    return folder


def test_a_template_is_compiled_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = _page(_FIRST)
    (file,) = folder.glob("*.jinja")
    monkeypatch.setattr(Environment, "compile", None)  # whoever compiles fails
    assert (_page(_FIRST), page) == ("a 1", "a 1")
    file.unlink()
    with pytest.raises(TypeError):
        _page(_FIRST)


def test_a_template_that_changed_is_compiled_again(folder: Path) -> None:
    _page(_FIRST)
    assert _page(_SECOND) == "b 1"
    assert len([*folder.glob("*.jinja")]) == 1, "it takes the place of the other"


@pytest.mark.parametrize("damage", [b"", b"other bytes", "cut", "flip"])
def test_a_damaged_file_is_made_again(folder: Path, damage: bytes | str) -> None:
    _page(_FIRST)
    (file,) = folder.glob("*.jinja")
    whole = file.read_bytes()
    flipped = whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]
    damages: dict[bytes | str, bytes] = {"cut": whole[:-1], "flip": flipped}
    file.write_bytes(damages.get(damage, damage if isinstance(damage, bytes) else b""))
    assert _page(_FIRST) == "a 1"
    assert file.read_bytes() == whole


def test_what_cannot_be_kept_is_compiled_each_time(folder: Path) -> None:
    folder.rmdir()
    assert _page(_FIRST) == "a 1"
    assert not folder.exists()


def test_nothing_is_kept_where_python_keeps_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert _page(_FIRST) == "a 1"
    assert not [*folder.iterdir()]
