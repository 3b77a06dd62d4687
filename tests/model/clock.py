"""The clock of the store, moved forward: its folders' files are as old as they would be then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from transforms.stores.folder_store import FolderStore

DAY = 24 * 3600.0


class Clock:
    """What folders give for the time. Files that were not there before get that time, too."""

    def __init__(self, patch: pytest.MonkeyPatch, *folders: Path) -> None:
        self.days = 0.0
        self._folders = folders
        self._times: dict[Path, int] = {}
        real = FolderStore.now
        patch.setattr(FolderStore, "now", lambda store: real(store) + self.days * DAY)

    def advance(self, days: float) -> None:
        """Let some days pass."""
        self.stamp()
        self.days += days

    def stamp(self) -> None:
        """Give files that were written since the last time the time of this clock."""
        for folder in self._folders:
            for path in folder.rglob("*"):
                if path.is_file() and not path.is_symlink():
                    self._stamp_file(path)

    def _stamp_file(self, path: Path) -> None:
        modified = path.stat().st_mtime_ns
        if self._times.get(path) != modified:
            modified += int(self.days * DAY) * 10**9
            self._times[path] = modified
            if self.days:
                os.utime(path, ns=(modified, modified))
