"""The sample history, loaded once: what docs say is tried on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.settings import Settings
from pipelines.site.publishing import publish_segments
from pipelines.site.site import Site
from tests import shared_folders


@pytest.fixture(scope="package")
def sample_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return shared_folders.sample_site(tmp_path_factory.mktemp("docs"))


@pytest.fixture(scope="package")
def home_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The sample in `strata-data` of a folder, loaded and published."""
    data = tmp_path_factory.mktemp("home") / "strata-data"
    return _home_site(shared_folders.shared_copy("home", _publish, data))


def _publish(folder: Path) -> None:
    shared_folders.sample_site(folder)
    site = _home_site(folder)
    publish_segments(site, site.loaded_catalog().blocks)


def _home_site(data: Path) -> Site:
    source, warehouse, archive = (str(data / one) for one in ("source", "warehouse", "archive"))
    return Site(Settings(source=source, warehouse=warehouse, archive=archive, lake=False))


@pytest.fixture(scope="package")
def home(home_site: Site) -> Path:
    """The folder of that `strata-data`."""
    return Path(home_site.settings.source).parents[1]
