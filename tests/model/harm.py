"""What happens to folders without us: files are lost, bits flip, backups are put back."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from exporters.zips.part_zip import write_part_zip
from tests.model.log_files import named_files, numbers_of
from tests.model.model import Model
from tests.model.world import World


@dataclass(frozen=True, slots=True)
class Backup:
    """A copy of the warehouse's folder, and the model as it was."""

    folder: Path
    model: Model


def harmed_files(warehouse: Path) -> list[str]:
    """The files that can be lost and made again: those that hold segments."""
    return sorted(name for name in named_files(warehouse) if numbers_of(name))


def flip(path: Path) -> None:
    """Flip a bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(content)


def alter_text(path: Path) -> None:
    """Put a ZIP with another text in the place of a part, whole in itself."""
    with ZipFile(path) as zip_file:
        (name,) = zip_file.namelist()
        header, feed, body = zip_file.read(name).partition(b"\n")
    altered = body.replace(b"2023", b"2024")
    assert altered != body
    write_part_zip(path, name, header + feed, [altered], body.count(b"\n"))


def back_up(world: World, model: Model) -> Backup:
    """Copy the warehouse's folder."""
    folder = world.home / "backup"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(world.warehouse, folder, symlinks=True)
    return Backup(folder, model.copy())


def restore(world: World, model: Model, backup: Backup) -> None:
    """Put the copy in the place of the warehouse."""
    shutil.rmtree(world.warehouse)
    shutil.copytree(backup.folder, world.warehouse, symlinks=True)
    kept = backup.model.copy()
    model.loaded, model.tried = kept.loaded, kept.tried
