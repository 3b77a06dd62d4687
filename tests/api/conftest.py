from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.server_kit import Served, serving, settings
from tests.api.site_kit import FIRST, SECOND, Site, small_site
from tests.shared_folders import shared_copy


@pytest.fixture(scope="session")
def built_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Three segments, loaded; the first two published, the third waiting. Not to be changed."""
    return Site(shared_copy("built", _build, tmp_path_factory.mktemp("site")))


def _build(folder: Path) -> None:
    small_site(folder).publish([FIRST, SECOND])


@pytest.fixture(scope="session")
def wide_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Two segments, waiting; the first is larger than all buffers of a connection."""
    return Site(shared_copy("wide", _build_wide, tmp_path_factory.mktemp("wide")))


def _build_wide(folder: Path) -> None:
    site = Site(folder)
    site.add_segment(FIRST, orders=20_000)
    site.add_segment(SECOND)
    site.load()


@pytest.fixture
def site(built_site: Site, tmp_path: Path) -> Site:
    """A copy of the built site, to be changed at will."""
    return built_site.copied(tmp_path / "site")


# For the package, not the session: it looks at its files fifty times a second, as long as it runs.
@pytest.fixture(scope="package")
def served(built_site: Site) -> Iterator[Served]:
    """A server over the built site, for tests that only ask."""
    with serving(settings(built_site.locations)) as found:
        yield found
