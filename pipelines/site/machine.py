"""Whether this machine can work: free space for what is written, and places that answer.

Nothing here knows Dagster. What begins on a machine that cannot work fails within seconds, and so a
machine with a full disk would take most of what there is to do.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

from exporters.locations import dagster_home
from pipelines.site.site import Site
from transforms.errors import StrataError
from transforms.machine_errors import sentence

_MB = 10**6


def machine_problem(site: Site) -> str:
    """Why nothing is to be begun on this machine, as a sentence; empty where it can work."""
    try:
        for name, folder in local_folders(site).items():
            problem = _source_problem(folder) if name == "source" else _disk_problem(site, folder)
            if problem:
                return problem
        # Any key does: what counts is that there is an answer.
        for place in (site.source.reader, site.warehouse.backing.store, site.store):
            place.head("any")
    except OSError as error:
        return sentence(error)
    except StrataError as error:
        return str(error)
    return ""


def local_folders(site: Site) -> Mapping[str, Path]:
    """The places that may be folders of this machine, by their names; an `s3://` one is none."""
    settings = site.settings
    texts = {
        "source": settings.source,
        "warehouse": settings.warehouse,
        "archive": settings.archive,
        "cache": ""
        if site.warehouse.in_folder and not settings.cache
        else str(site.warehouse.cache),
        "dagster": str(dagster_home()),
    }
    return {name: Path(text) for name, text in texts.items() if text and "://" not in text}


def _source_problem(folder: Path) -> str:
    """The other places are made where they are missing; a folder of segments is a mount's."""
    return "" if folder.is_dir() else f"{folder} is not there: mount the source"


def _disk_problem(site: Site, folder: Path) -> str:
    """Why a folder cannot take more. Raises `OSError` likewise."""
    least = site.settings.free_mb
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    disk = os.statvfs(place)
    if disk.f_flag & os.ST_RDONLY:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(folder))
    free = disk.f_bavail * disk.f_frsize // _MB
    if free >= least:
        return ""
    return (
        f"{folder} has {free:,} MB of free disk, and a run begins with {least:,}: free some room "
        "there, or let STRATA_FREE_MB be less"
    )
