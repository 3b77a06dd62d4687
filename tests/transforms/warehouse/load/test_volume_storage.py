"""Files that become objects of the warehouse."""

from __future__ import annotations

from pathlib import Path

from transforms.block_range import BlockRange
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import content_sha256
from transforms.warehouse.files.local_files import LocalFiles
from transforms.warehouse.load.volume_storage import store_new


def test_who_writes_the_next_file_under_the_same_name_leaves_the_object_as_it_is(
    tmp_path: Path,
) -> None:
    store = FolderStore(tmp_path / "warehouse")
    files = LocalFiles(store, tmp_path / "cache")
    scratch = tmp_path / "volume.parquet"
    stored = []
    for number, content in enumerate((b"first", b"the second"), start=1):
        scratch.write_bytes(content)
        stored.append(store_new(store, files, "manifests", BlockRange(number, number), scratch))
    for file in stored:
        assert content_sha256(store.path(file.key)) == file.sha256
