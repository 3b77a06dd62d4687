"""Lost files: what a listing shows of another size, or lacks, is asked for by name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from transforms.objects import ObjectInfo, StoredFile
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.manifests.file_names import absent_files

_BYTES = b"rows"


class _ForgetfulStore(FolderStore):
    """A folder of which listings lack some files."""

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return (info for info in super().list(prefix) if "unlisted" not in info.key)


def _file(folder: Path, name: str, size: int = len(_BYTES)) -> StoredFile:
    path = folder / "data" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(_BYTES)
    return StoredFile(f"data/{name}", size, hashlib.sha256(_BYTES).hexdigest())


def test_a_file_that_a_listing_lacks_is_asked_for_by_name(tmp_path: Path) -> None:
    listed, unlisted = _file(tmp_path, "listed"), _file(tmp_path, "unlisted")
    gone, longer = _file(tmp_path, "gone"), _file(tmp_path, "unlisted-longer", 9)
    (tmp_path / gone.key).unlink()
    absent = absent_files(_ForgetfulStore(tmp_path), [listed, unlisted, gone, longer])
    assert absent == {gone: "is missing", longer: "has 4 bytes, not 9"}
