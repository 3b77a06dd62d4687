"""The current states that lie in a lake as files: each must hash to what its name says."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from exporters.archive.archive import Archive
from exporters.lake.delta import KEPT_HOURS
from exporters.lake.state_files import LIST, StateFile, listed_states, state_files
from exporters.verifying.listing import StoreListing
from transforms.errors import IntegrityError
from transforms.stores.store import object_sha256
from transforms.verifying.counts import Kind
from transforms.verifying.findings import LAKE_PUBLISH, Finding, Problem, Remedy
from transforms.verifying.verification import Verification

_KEPT_SECONDS = 2 * KEPT_HOURS * 3600


def state_findings(
    archive: Archive, verification: Verification, listing: StoreListing
) -> Iterator[Finding]:
    """Yield what is wrong, and cross off what belongs there."""
    if listing.find(archive.key(LIST)) is None:
        return
    listing.cross_off([archive.key(LIST)])
    verification.counts.expect(Kind.DOCUMENTS)
    try:
        states = state_files(archive)
    except IntegrityError as error:
        yield Finding(Problem.BAD_LAKE_FILE, archive.place(LIST), str(error), LAKE_PUBLISH)
        states = ()
    verification.counts.read(Kind.DOCUMENTS)
    for state in states:
        yield from _state(archive, verification, state)
    named = {archive.key(state.path) for state in states}
    for info in listed_states(archive, listing.left):
        if info.key not in named and listing.time - info.modified > _KEPT_SECONDS:
            what = "states.json has not named it for two weeks"
            yield Finding(Problem.ORPHAN, archive.store.describe(info.key), what, LAKE_PUBLISH)
        listing.cross_off([info.key])


def _state(archive: Archive, verification: Verification, state: StateFile) -> Iterator[Finding]:
    counts, place = verification.counts, archive.place(state.path)
    for kind, size in ((Kind.LAKE_FILES, 1), (Kind.BYTES, state.bytes)):
        counts.expect(kind, size)
    try:
        digest = object_sha256(archive.store, archive.key(state.path))
    except FileNotFoundError:
        yield Finding(Problem.MISSING, place, "states.json names it", LAKE_PUBLISH)
        return
    for kind, size in ((Kind.LAKE_FILES, 1), (Kind.BYTES, state.bytes)):
        counts.read(kind, size)
    if digest != state.sha256:
        tool = "aws s3 rm" if place.startswith("s3://") else "rm"
        remedy = Remedy((f"{tool} {shlex.quote(place)}", *LAKE_PUBLISH.commands))
        what = f"it hashes to {digest}, which is not what its name says"
        yield Finding(Problem.ALTERED, place, what, remedy)
