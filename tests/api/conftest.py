from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.server_kit import Served, serving, settings
from tests.api.site_kit import FIRST, SECOND, Site, small_site


@pytest.fixture(scope="session")
def built_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Three segments, loaded; the first two published, the third waiting. Not to be changed."""
    site = small_site(tmp_path_factory.mktemp("site"))
    site.publish([FIRST, SECOND])
    return site


@pytest.fixture
def site(built_site: Site, tmp_path: Path) -> Site:
    """A copy of the built site, to be changed at will."""
    shutil.copytree(built_site.root, tmp_path / "site", symlinks=True)
    copy = Site(tmp_path / "site")
    copy.reload()  # views name files by path
    return copy


@pytest.fixture(scope="session")
def served(built_site: Site) -> Iterator[Served]:
    """A server over the built site, for tests that only ask."""
    with serving(settings(built_site.places)) as found:
        yield found
