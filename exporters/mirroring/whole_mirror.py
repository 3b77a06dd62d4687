"""A mirror of all that an archive has: ZIPs and documents, and the lake beside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.fetching.fetch_folder import JOBS, Progress, no_progress
from exporters.fetching.mirror import Copy, Mirrored, mirror


def mirror_all(
    source: Archive,
    out: Path,
    *,
    jobs: int = JOBS,
    progress: Progress = no_progress,
    warn: Callable[[str], object] = lambda _: None,
) -> Mirrored:
    """Make the archive in the folder `out` what `source` is, with its lake; see `mirror`.

    `warn` is told why a lake is not copied.
    """
    copy = _lake_copy(source, jobs, progress, warn) if source.index().has_lake else None
    return mirror(source, out, jobs=jobs, progress=progress, copy_lake=copy)


def _lake_copy(
    source: Archive, jobs: int, progress: Progress, warn: Callable[[str], object]
) -> Copy | None:
    place = source.place("lake")
    try:
        # Whoever fetches ZIPs alone needs none of what reads Parquet.
        from exporters.mirroring.lake_mirror import LakeMirror
    except ModuleNotFoundError as error:
        warn(f"{place} is not copied without {error.name}: pip install 'strata[pipeline]'")
        return None
    lake = LakeMirror(source, jobs, progress)
    lake.read()
    return lake.copy
