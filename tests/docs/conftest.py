"""The sample history, loaded once: what docs say is tried on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.sample import copy_sample
from pipelines.site.site import Site
from tests.pipelines.kit import load, site_settings


@pytest.fixture(scope="package")
def sample_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    settings = site_settings(tmp_path_factory.mktemp("docs"))
    copy_sample(Path(settings.source))
    site = Site(settings)
    load(site)
    return site
