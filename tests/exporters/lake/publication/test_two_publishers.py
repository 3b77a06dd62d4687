"""Of two publishers, wherever one comes between the other's steps, all is there, and once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from pipelines.site.lake_publishing import publish_missing
from pipelines.site.site import Site
from tests.exporters.lake.lake_kit import LakeSite, lake_site, write_segment
from tests.segments_kit import table_rows
from transforms.objects import ObjectInfo
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import PutResult

TABLE = "accounts"  # of current state: the newest copy takes the place of the one before


class Watched(FolderStore):
    """A folder that calls before each operation on what lies below a key."""

    def __init__(self, root: Path, below: str, before: Callable[[], object]) -> None:
        super().__init__(root)
        self._below = below
        self._before = before
        self._is_swapping = False

    def _note(self, key: str) -> None:
        if key.startswith(self._below) and not self._is_swapping:
            self._before()

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        self._note(prefix)
        return super().list(prefix)

    def head(self, key: str) -> ObjectInfo | None:
        self._note(key)
        return super().head(key)

    def read(self, key: str, *given: Any, **named: Any) -> bytes:
        self._note(key)
        return super().read(key, *given, **named)

    def path(self, key: str) -> Path:
        self._note(key)
        return super().path(key)

    def put_if_absent(self, key: str, source: Path | bytes, **given: Any) -> PutResult:
        self._note(key)
        return super().put_if_absent(key, source, **given)

    def put_if_match(self, key: str, *given: Any, **named: Any) -> str:
        """A swap holds the folder's lock from its beginning: nobody comes between."""
        self._note(key)
        self._is_swapping = True
        try:
            return super().put_if_match(key, *given, **named)
        finally:
            self._is_swapping = False


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> LakeSite:
    folder = tmp_path_factory.mktemp("published")
    write_segment(folder / "source", 1, {TABLE: table_rows(TABLE, {}, first=1)}, states=[TABLE])
    made = lake_site(folder, folder / "source")
    made.load()
    made.publish_zips()
    assert not made.publish()
    return made


def test_wherever_another_publisher_comes_between_a_new_table_has_everything_once(
    published: LakeSite, tmp_path: Path
) -> None:
    for number in count(1):
        archive = shutil.copytree(published.site.settings.archive, tmp_path / str(number))
        ours, other = published.elsewhere(archive), published.elsewhere(archive)
        shutil.rmtree(ours.folder / TABLE)
        steps = count(1)

        def before(
            at: int = number, steps: Iterator[int] = steps, other: Site = other.site
        ) -> None:
            if next(steps) == at:
                assert not publish_missing(other)

        below = ours.site.archive(ours.chain).key(f"lake/{TABLE}")
        vars(ours.site)["store"] = Watched(archive, below, before)

        assert not ours.publish()

        assert ours.spans(TABLE) == ["1-10"]
        held = DeltaTable(ours.folder / TABLE)
        assert held.to_pyarrow_dataset().count_rows() == 1
        assert len(list((ours.folder / TABLE).glob("*.parquet"))) == 1
        if next(steps) <= number:  # our own came to its end before
            break
    assert number > 2
