"""Files that become objects of the warehouse."""

from __future__ import annotations

from pathlib import Path

from transforms.block_range import BlockRange
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import content_sha256
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.volume_files import store_new


def test_who_writes_the_next_file_under_the_same_name_leaves_the_object_as_it_is(
    tmp_path: Path,
) -> None:
    backing = Backing(FolderStore(tmp_path / "warehouse"), tmp_path / "cache")
    scratch = tmp_path / "volume.parquet"
    stored = []
    for number, content in enumerate((b"first", b"the second"), start=1):
        scratch.write_bytes(content)
        stored.append(store_new(backing, "manifests", BlockRange(number, number), scratch))
    for file in stored:
        assert content_sha256(backing.files.path(file)) == file.sha256
