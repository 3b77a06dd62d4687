"""What servers hold of volumes: made once on a machine, for new volumes only, and swept."""

from __future__ import annotations

from pathlib import Path

from tests.transforms.warehouse_kit import history_segment, load_folder
from transforms.warehouse.catalog import Catalog
from transforms.warehouse.held_files import FOLDER, HeldFiles
from transforms.warehouse.warehouse_address import open_warehouse


def _load(tmp_path: Path, last: int) -> Catalog:
    """Load one more segment of ten blocks."""
    history_segment(tmp_path / "source", first=last - 9, last=last)
    assert load_folder(tmp_path / "warehouse", tmp_path / "source").failures == []
    return open_warehouse(tmp_path / "warehouse").loaded_catalog()


def _hold(held: HeldFiles, catalog: Catalog) -> list[tuple[int, int]]:
    """The blocks of all segments, as they are held."""
    found = held.segments(catalog)
    held.tidy(catalog)
    return [(one.first, one.last) for held in found.values() for one in held.blocks()]


def _files(tmp_path: Path) -> dict[str, int]:
    return {
        path.name: path.stat().st_mtime_ns for path in (tmp_path / "warehouse" / FOLDER).iterdir()
    }


def test_one_more_volume_is_all_that_is_read_for_a_new_generation(tmp_path: Path) -> None:
    held, catalog = HeldFiles(tmp_path / "warehouse"), _load(tmp_path, 10)
    assert _hold(held, catalog) == [(1, 10)]
    before = _files(tmp_path)
    assert len(before) == 1
    # Neither the manifest before nor what was made of it is opened again.
    for folder in ("manifests", FOLDER):
        for path in (tmp_path / "warehouse" / folder).iterdir():
            path.rename(tmp_path / path.name)

    catalog = _load_again(tmp_path)

    assert _hold(held, catalog) == [(1, 10), (11, 20)]
    assert len(_files(tmp_path)) == 1


def _load_again(tmp_path: Path) -> Catalog:
    """Load one more segment while the manifest before is put back for that."""
    folder = tmp_path / "warehouse" / "manifests"
    (moved,) = tmp_path.glob("*.parquet")
    moved.rename(folder / moved.name)
    catalog = _load(tmp_path, 20)
    (folder / moved.name).unlink()
    return catalog


def test_another_process_finds_what_was_made(tmp_path: Path) -> None:
    catalog = _load(tmp_path, 10)
    _hold(HeldFiles(tmp_path / "warehouse"), catalog)
    before = _files(tmp_path)
    # Not even a manifest that could not be read hinders it.
    for path in (tmp_path / "warehouse" / "manifests").iterdir():
        path.write_bytes(bytes(path.stat().st_size))

    assert _hold(HeldFiles(tmp_path / "warehouse"), catalog) == [(1, 10)]

    assert _files(tmp_path) == before


def test_the_files_go_with_the_volumes(tmp_path: Path) -> None:
    held = HeldFiles(tmp_path / "warehouse")
    for last in (10, 20, 30):
        catalog = _load(tmp_path, last)
        _hold(held, catalog)
    before = _files(tmp_path)
    assert len(before) == 3
    open_warehouse(tmp_path / "warehouse").compact(most_partial=1)
    catalog = open_warehouse(tmp_path / "warehouse").loaded_catalog()

    assert _hold(held, catalog) == [(1, 10), (11, 20), (21, 30)]

    assert len(_files(tmp_path)) == 1
    assert _files(tmp_path).keys().isdisjoint(before)
