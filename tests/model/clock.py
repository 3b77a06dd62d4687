"""The clock of the store, moved forward: what is stored then is as new as it would be."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transforms.stores.folder_store import FolderStore
from transforms.stores.store import PutResult

DAY = 24 * 3600.0


class Clock:
    """What folders give for the time, and for that of a file which is stored."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.days = 0.0
        real = FolderStore.now
        patch.setattr(FolderStore, "now", lambda store: real(store) + self.days * DAY)
        for name in ("put_if_absent", "put_if_match"):
            patch.setattr(FolderStore, name, self._stamping(getattr(FolderStore, name)))

    def advance(self, days: float) -> None:
        """Let some days pass."""
        self.days += days

    def _stamping(self, put: Callable[..., Any]) -> Callable[..., Any]:
        def call(store: FolderStore, key: str, *arguments: Any, **options: Any) -> Any:
            path, was_there = store.path(key), store.path(key).exists()
            try:
                result = put(store, key, *arguments, **options)
            except BaseException:  # who is killed after it got its name has stored it, too
                if path.exists() and not was_there:
                    self._stamp(path)
                raise
            if result is PutResult.IDENTICAL or not self.days:
                return result
            self._stamp(path)
            info = store.head(key)
            return info.version if info and isinstance(result, str) else result

        return call

    def _stamp(self, path: Path) -> None:
        """Give a file our time, unless it has one: a lake has links to the warehouse's files."""
        info = path.stat()
        if info.st_mtime <= time.time():
            modified = info.st_mtime_ns + int(self.days * DAY) * 10**9
            os.utime(path, ns=(modified, modified))
