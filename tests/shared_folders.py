"""Folders that one process of a test session fills, and of which the others take copies."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pipelines.sample_history import copy_sample
from pipelines.site.lake_publishing import publish_missing
from pipelines.site.publishing import publish_segments
from pipelines.site.site import Site
from tests.pipelines.kit import load, site_settings
from tests.segments_kit import all_shared_segments
from tests.weed_kit import SESSION


def shared_copy(name: str, fill: Callable[[Path], object], place: Path) -> Path:
    """Copy what `fill` put into the shared folder of this name to a place, and return that.

    The first that asks fills it, while others that ask wait.
    """
    root = Path(os.environ[SESSION], "folders")
    root.mkdir(exist_ok=True)
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / name).exists():
            unfinished = root / f"{name}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            fill(unfinished)
            unfinished.rename(root / name)
    return Path(shutil.copytree(root / name, place, dirs_exist_ok=True))


def sample_site(folder: Path) -> Site:
    """A site with the sample history, loaded at once, of which nothing is published."""
    shared_copy("loaded", _load_sample, folder)
    return Site(site_settings(folder))


def _load_sample(folder: Path) -> None:
    settings = site_settings(folder)
    copy_sample(Path(settings.source))
    load(Site(settings))


def published_sample(folder: Path) -> Site:
    """A site with the sample history but its last segment, all of it published, with the lake.

    The last one lies beside the source: `add_last` puts it there.
    """
    shared_copy("published", _publish_sample, folder)
    return Site(replace(site_settings(folder), lake=True, batch=8))


def _publish_sample(folder: Path) -> None:
    site = Site(replace(site_settings(folder), lake=True, batch=8))
    *_, late = copy_sample(Path(site.settings.source))
    late.rename(folder / late.name)
    publish_all(site)


def add_last(site: Site) -> None:
    """Put the last segment of the sample into the source of such a site."""
    source = Path(site.settings.source)
    (late,) = source.parent.glob("*.zip")
    late.rename(source / late.name)


def recorded_sites(folder: Path) -> list[Site]:
    """A site with each folder of recorded segments, loaded at once, and nothing published."""
    shared_copy("recorded", _load_recorded, folder)
    return _recorded(folder)


def _load_recorded(folder: Path) -> None:
    for site in _recorded(folder):
        load(site)


def _recorded(folder: Path) -> list[Site]:
    return [
        Site(replace(site_settings(folder / str(number)), source=str(source), lake=True))
        for number, source in enumerate(all_shared_segments())
    ]


def publish_all(site: Site) -> None:
    """Load and publish what the source has, as `strata run` does."""
    load(site)
    publish_segments(site, site.loaded_catalog().blocks)
    assert not publish_missing(site)
