"""What lies in a lake beside its tables: states, and what logs do not name any more, or not yet."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping

from exporters.archive.archive import Archive
from exporters.lake.lake_files import Lake
from exporters.lake.publication.lake_sweep import unnamed_since
from exporters.lake.state_files import LIST, listed_states, state_files
from exporters.lake.tables import Version
from exporters.verifying.listing import StoreListing
from exporters.verifying.named_objects import NamedObjects
from transforms.errors import IntegrityError
from transforms.objects import StoredFile
from transforms.stores.store import object_sha256
from transforms.verifying.findings import LAKE_PUBLISH, Finding, Problem, Remedy
from transforms.verifying.verification import YOUNG_SECONDS, Kind


def state_findings(archive: Archive, objects: NamedObjects) -> Iterator[Finding]:
    """Yield what is wrong, and cross off what belongs there."""
    listing, verification = objects.listing, objects.verification
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
        yield from _state_file(archive, objects, file, is_chosen=is_chosen)
    # Who publishes removes those that the list does not name.
    listing.cross_off([info.key for info in listed_states(archive, listing.left)])


def _state_file(
    archive: Archive, objects: NamedObjects, file: StoredFile, *, is_chosen: bool
) -> Iterator[Finding]:
    """What is wrong with a file; one that is not chosen is there, at least, with all its bytes."""
    counts, key, place = objects.verification.counts, archive.key(file.key), archive.place(file.key)
    sizes = ((Kind.LAKE_FILES, 1), (Kind.BYTES, file.size))
    for kind, size in sizes:
        counts.expect(kind, size, is_chosen=is_chosen)
    tool = "aws s3 rm" if place.startswith("s3://") else "rm"
    again = Remedy((f"{tool} {shlex.quote(place)}", *LAKE_PUBLISH.commands))
    findings = [*objects.present(key, file.size, "states.json", LAKE_PUBLISH, again)]
    yield from findings
    if is_chosen and not findings:
        digest = object_sha256(archive.store, key)
        for kind, size in sizes:
            counts.read(kind, size)
        if digest != file.sha256:
            what = f"it hashes to {digest}, which is not what its name says"
            yield Finding(Problem.ALTERED, place, what, again)


def cross_off_leftovers(
    lake: Lake, listing: StoreListing, versions: Mapping[str, Version], damaged: Collection[str]
) -> None:
    """Cross off what belongs to the lake, and what who publishes removes after a week.

    Of the tables in `damaged` nothing is known. What is left then is a stranger.
    """
    accounted = []
    for info in listing.left(lake.folder):
        table, name = lake.parts(info.key)
        is_young = listing.time - info.modified < YOUNG_SECONDS
        version = versions.get(table)
        is_ours = version is not None and unnamed_since(version, name, info) is not None
        if table in damaged or is_young or is_ours:
            accounted.append(info.key)
    listing.cross_off(accounted)
