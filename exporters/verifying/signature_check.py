"""The signatures of an archive, held against a public key."""

from __future__ import annotations

from collections.abc import Iterator

from exporters.archive.archive import Archive
from exporters.archive.archive_signatures import ENDING, SIGNATURES
from exporters.signing_keys import PublicKey, check_signature
from transforms.errors import IntegrityError
from transforms.verifying.counts import Counts, Kind
from transforms.verifying.findings import Finding, Problem, Remedy

_SIGN = Remedy(("strata publish",), "with STRATA_SIGNING_KEY set to the right key")


def signature_findings(
    archive: Archive, public_key: PublicKey, counts: Counts
) -> Iterator[Finding]:
    """Yield which documents of a chain are not signed by the key."""
    for name in SIGNATURES:
        place = archive.place(f"{name}{ENDING}")
        counts.expect(Kind.DOCUMENTS)
        data, signature = archive.read(name), archive.read(f"{name}{ENDING}")
        counts.read(Kind.DOCUMENTS, 0 if signature is None else 1)
        if data is None:
            continue  # that it is gone is found where it is read
        if signature is None:
            what = f"{name} is not signed, or its signature is gone"
            yield Finding(Problem.BAD_SIGNATURE, place, what, _SIGN)
            continue
        try:
            check_signature(data, signature, public_key, archive.place(name))
        except IntegrityError as error:
            yield Finding(Problem.BAD_SIGNATURE, place, str(error), _SIGN)
