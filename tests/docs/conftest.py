"""The sample history, loaded once: what docs say is tried on it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pipelines.sample_history import copy_sample
from pipelines.settings import Settings
from pipelines.site.publishing import publish_segments
from pipelines.site.site import Site
from tests.pipelines.kit import load, site_settings


@pytest.fixture(scope="package")
def sample_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    settings = site_settings(tmp_path_factory.mktemp("docs"))
    copy_sample(Path(settings.source))
    site = Site(settings)
    load(site)
    return site


@pytest.fixture(scope="package")
def home_site(sample_site: Site, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The sample in `strata-data` of a folder, loaded and published."""
    data = tmp_path_factory.mktemp("home") / "strata-data"
    for name in ("source", "warehouse"):
        shutil.copytree(Path(sample_site.settings.source).parent / name, data / name)
    source, warehouse, archive = (str(data / one) for one in ("source", "warehouse", "archive"))
    site = Site(Settings(source=source, warehouse=warehouse, archive=archive, lake=False))
    load(site)
    publish_segments(site, site.loaded_catalog().blocks)
    return site


@pytest.fixture(scope="package")
def home(home_site: Site) -> Path:
    """The folder of that `strata-data`."""
    return Path(home_site.settings.source).parents[1]
