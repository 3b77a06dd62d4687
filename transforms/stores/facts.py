"""What an S3 service was seen to honour, kept by each machine for a day."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from transforms.errors import ConfigError
from transforms.files import new_file

_DAY_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """What a service does with the requests that safe writing and reading depend on."""

    creates_once: bool
    """A PUT with `If-None-Match: *` is refused where there is an object."""
    replaces_matching: bool
    """A PUT with `If-Match` is refused for another ETag than the object's, and done for that."""
    unquoted: bool
    """`If-Match` wants the ETag of a PUT without its quotation marks."""
    verifies: bool
    """A body that does not hash to the SHA-256 announced with it is refused."""

    def creating(self) -> dict[str, str]:
        """The condition of a PUT that creates; nothing where it would not be honoured."""
        return {"IfNoneMatch": "*"} if self.creates_once else {}

    def replacing(self, etag: str) -> dict[str, str]:
        """The condition of a PUT that replaces; nothing where it would not be honoured."""
        if not self.replaces_matching:
            return {}
        return {"IfMatch": etag.strip('"') if self.unquoted else etag}

    def is_usable(self, *, single_writer: bool) -> bool:
        """Whether such a store may be written to; a single writer needs no conditions."""
        return single_writer or (self.creates_once and self.replaces_matching)

    def refusal(self, place: str) -> ConfigError:
        """Why nothing may be written to a store that is not usable, and what to do."""
        request = "a PUT with If-Match" if self.creates_once else "a PUT with If-None-Match: *"
        return ConfigError(
            f"{place} was tried, and its service does not honour {request}. Nothing was written: "
            "of two writers at once one would lose its work, and nobody would know. Use a service "
            "that honours it, or a folder; or, if never more than one process writes there, say so "
            "with STRATA_SINGLE_WRITER=1"
        )


class KeptFacts:
    """A file below `folder` with what was seen of the store at `address`."""

    def __init__(self, folder: Path, address: str) -> None:
        name = hashlib.sha256(address.encode()).hexdigest()[:32]
        self._path = folder.expanduser() / f"{name}.json"
        self._address = address

    def read(self) -> StoreFacts | None:
        """What was seen less than a day ago; None where nothing was."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            record = json.loads(self._path.read_text())
            age = time.time() - record["time"]
            if record["address"] == self._address:
                return StoreFacts(**record["facts"]) if 0 <= age < _DAY_SECONDS else None
        return None

    def write(self, facts: StoreFacts) -> None:
        """Keep what was just seen; a folder that cannot be written to only costs another look."""
        record = {"address": self._address, "time": time.time(), "facts": asdict(facts)}
        with suppress(OSError), new_file(self._path, durable=False) as file:
            file.write(json.dumps(record, indent=1).encode())
