"""What lies in a lake beside its tables: states, and what logs do not name any more, or not yet."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from exporters.archive.archive import Archive
from exporters.lake.lake_files import Lake
from exporters.lake.publication.lake_sweep import unnamed_since
from exporters.lake.state_files import LIST, listed_states, state_files
from exporters.lake.tables import Version
from exporters.verifying.listing import StoreListing
from exporters.verifying.named_objects import NamedObject
from exporters.verifying.verify_lake_file import LakeFileReader
from transforms.errors import IntegrityError
from transforms.verifying.findings import LAKE_PUBLISH, Finding, Problem, put_again
from transforms.verifying.verification import YOUNG_SECONDS, Kind


def state_findings(archive: Archive, reader: LakeFileReader) -> Iterator[Finding]:
    """Yield what is wrong, and cross off what belongs there."""
    listing, counts = reader.objects.listing, reader.objects.verification.counts
    is_listed = listing.find(archive.key(LIST)) is not None
    listing.cross_off([archive.key(LIST)])
    counts.expect(Kind.DOCUMENTS, int(is_listed))
    try:
        states = state_files(archive)
    except IntegrityError as error:
        yield Finding(Problem.BAD_LAKE_FILE, archive.place(LIST), str(error), LAKE_PUBLISH)
        states = ()
    counts.read(Kind.DOCUMENTS, int(is_listed))
    files = [file for state in states for file in state.files]
    for file in files:
        key, again = archive.key(file.key), put_again(archive.place(file.key))
        item = NamedObject(key, file.size, file.sha256, "states.json", LAKE_PUBLISH, again)
        is_chosen = reader.expect(item, len(files))
        yield from reader.findings(item, lambda _: (), is_chosen=is_chosen)
    # Who publishes removes those that the list does not name.
    listing.cross_off([info.key for info in listed_states(archive, listing.left)])


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
