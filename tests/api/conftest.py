from __future__ import annotations

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


@pytest.fixture(scope="session")
def wide_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Two segments, waiting; the first is larger than all buffers of a connection."""
    site = Site(tmp_path_factory.mktemp("wide"))
    site.add_segment(FIRST, orders=20_000)
    site.add_segment(SECOND)
    site.load()
    return site


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
