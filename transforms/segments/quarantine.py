"""The quarantine: files that could not be used, beside the reason, until a corrected one comes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile

from transforms.files import commit_file
from transforms.objects import ObjectInfo
from transforms.scratch import scratch_folder
from transforms.segments.inventory import Refusal


@dataclass(frozen=True, slots=True)
class QuarantinedFile:
    """A refused file and why: `copy` is the file itself where it was read before it was refused.

    Without one the listing alone was the reason (its name, a rival), which may pass by itself.
    """

    refusal: Refusal
    copy: Path | None

    @property
    def was_read(self) -> bool:
        """Whether the file's own bytes are wrong, so that only other bytes can help."""
        return self.copy is not None

    @property
    def key(self) -> str:
        """The file's key in its source."""
        return self.refusal.key

    @property
    def reason(self) -> str:
        """Why it cannot be used, as a sentence."""
        return self.refusal.reason


class Quarantine:
    """A folder with one JSON record per refused file, and a copy of the file where there is one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def files(self) -> list[QuarantinedFile]:
        """Every refused file, by key."""
        found = [self._read(path) for path in self._folder.glob("*.json")]
        return sorted((file for file in found if file), key=lambda file: file.refusal.info)

    def find(self, key: str) -> QuarantinedFile | None:
        """The record of a file; None where it was not refused."""
        return self._read(self._record(key))

    def put(self, refusal: Refusal, file: Path | None = None) -> None:
        """Record a refusal, with a copy of the file if it was fetched; replaces an older record."""
        record = self._record(refusal.key)
        copy = record.with_suffix(".zip")
        info = refusal.info
        row = {"key": info.key, "size": info.size, "version": info.version}
        text = json.dumps({**row, "reason": refusal.reason}, indent=1) + "\n"
        with scratch_folder(self._folder.parent / "scratch") as scratch:
            if file is None:
                copy.unlink(missing_ok=True)
            else:
                commit_file(copyfile(file, scratch / copy.name), copy)
            (scratch / record.name).write_text(text)
            commit_file(scratch / record.name, record)

    def release(self, keys: Iterable[str]) -> None:
        """Forget files that are right by now, or gone."""
        for key in keys:
            record = self._record(key)
            record.with_suffix(".zip").unlink(missing_ok=True)
            record.unlink(missing_ok=True)

    def _record(self, key: str) -> Path:
        # Keys may hold anything; the hash keeps every name apart and inside this folder.
        plain = re.sub(r"[^A-Za-z0-9_.-]", "_", key)
        # A file's name may hold bytes that are no UTF-8: Python has them as surrogates.
        digest = hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()[:8]
        return self._folder / f"{plain.removesuffix('.zip')[:120]}.{digest}.json"

    def _read(self, path: Path) -> QuarantinedFile | None:
        try:
            row = json.loads(path.read_text())
            refusal = Refusal(ObjectInfo(row["key"], row["size"], row["version"]), row["reason"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None  # released just now, or not one of ours: the file is then tried again
        copy = path.with_suffix(".zip")
        return QuarantinedFile(refusal, copy if copy.exists() else None)
