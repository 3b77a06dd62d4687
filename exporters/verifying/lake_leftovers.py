"""What lies in a lake beside its tables: states, and what logs do not name any more, or not yet."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping

from exporters.archive.archive import Archive
from exporters.lake.lake_files import Lake
from exporters.lake.log.table_version import KEPT_HOURS
from exporters.lake.publication.lake_sweep import unnamed_since
from exporters.lake.state_files import LIST, listed_states, state_files
from exporters.lake.tables import Version
from exporters.verifying.listing import StoreListing
from transforms.errors import IntegrityError
from transforms.objects import StoredFile
from transforms.stores.store import object_sha256
from transforms.verifying.findings import LAKE_PUBLISH, Finding, Problem, Remedy
from transforms.verifying.verification import YOUNG_SECONDS, Kind, Verification


def state_findings(
    archive: Archive, verification: Verification, listing: StoreListing
) -> Iterator[Finding]:
    """Yield what is wrong, and cross off what belongs there."""
    is_listed = listing.find(archive.key(LIST)) is not None
    listing.cross_off([archive.key(LIST)])
    verification.counts.expect(Kind.DOCUMENTS, int(is_listed))
    try:
        states = state_files(archive)
    except IntegrityError as error:
        yield Finding(Problem.BAD_LAKE_FILE, archive.place(LIST), str(error), LAKE_PUBLISH)
        states = ()
    verification.counts.read(Kind.DOCUMENTS, int(is_listed))
    files = [file for state in states for file in state.files]
    for file in files:
        is_chosen = verification.chooses(Kind.LAKE_FILES, len(files))
        yield from _state_file(archive, verification, file, is_chosen=is_chosen)
    named = {archive.key(file.key) for file in files}
    for info in listed_states(archive, listing.left):
        if info.key not in named and listing.time - info.modified > _KEPT_SECONDS:
            what = "states.json has not named it for two weeks"
            yield Finding(Problem.ORPHAN, archive.store.describe(info.key), what, LAKE_PUBLISH)
        listing.cross_off([info.key])


def _state_file(
    archive: Archive, verification: Verification, file: StoredFile, *, is_chosen: bool
) -> Iterator[Finding]:
    """What is wrong with a file; one that is not chosen is there, at least, with all its bytes."""
    counts, key, place = verification.counts, archive.key(file.key), archive.place(file.key)
    sizes = ((Kind.LAKE_FILES, 1), (Kind.BYTES, file.size))
    for kind, size in sizes:
        counts.expect(kind, size, is_chosen=is_chosen)
    info = archive.store.head(key)
    if info is None:
        yield Finding(Problem.MISSING, place, "states.json names it", LAKE_PUBLISH)
        return
    tool = "aws s3 rm" if place.startswith("s3://") else "rm"
    remedy = Remedy((f"{tool} {shlex.quote(place)}", *LAKE_PUBLISH.commands))
    if info.size != file.size:
        what = f"it has {info.size} bytes, not {file.size}"
        yield Finding(Problem.ALTERED, place, what, remedy)
    elif is_chosen:
        digest = object_sha256(archive.store, key)
        for kind, size in sizes:
            counts.read(kind, size)
        if digest != file.sha256:
            what = f"it hashes to {digest}, which is not what its name says"
            yield Finding(Problem.ALTERED, place, what, remedy)


_KEPT_SECONDS = 2 * KEPT_HOURS * 3600
"""Who publishes removes such files after half of that."""


def leftover_findings(
    lake: Lake,
    listing: StoreListing,
    versions: Mapping[str, Version],
    damaged: Collection[str],
    remedy: Remedy,
) -> Iterator[Finding]:
    """Cross off what belongs to the lake, and yield what should have been removed by now.

    Of the tables in `damaged` nothing is known. What is left then is a stranger.
    """
    accounted = []
    for info in listing.left(lake.folder):
        table, name = lake.parts(info.key)
        since = unnamed_since(versions[table], name, info) if table in versions else None
        if table in damaged or listing.time - info.modified < YOUNG_SECONDS:
            accounted.append(info.key)
        elif since is not None:
            accounted.append(info.key)
            if listing.time - since > _KEPT_SECONDS:
                what = "no version of its table has named it for two weeks"
                place = lake.archive.store.describe(info.key)
                yield Finding(Problem.ORPHAN, place, what, remedy)
    listing.cross_off(accounted)
