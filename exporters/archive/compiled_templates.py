"""Compiled templates, kept where Python keeps compiled modules: to compile them takes 0.1 s."""

from __future__ import annotations

import hashlib
import sys
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

from jinja2 import BytecodeCache
from jinja2.bccache import Bucket


class CompiledTemplates(BytecodeCache):
    """As with modules: what cannot be written is compiled again by the next process.

    Each file begins with the hash of the rest, and has that of its source: one that is damaged, or
    of a template that changed, is made again.
    """

    def __init__(self) -> None:
        self.folder = Path(cache_from_source(__file__)).parent

    def load_bytecode(self, bucket: Bucket) -> None:
        """Give a template what was kept of it, if that is whole."""
        with suppress(OSError):
            digest, _, code = self._path(bucket).read_bytes().partition(b"\n")
            if digest == _digest(code):
                bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template, if that is possible and wanted."""
        if not sys.dont_write_bytecode:
            code = bucket.bytecode_to_string()
            with suppress(OSError):
                self._path(bucket).write_bytes(_digest(code) + b"\n" + code)

    def _path(self, bucket: Bucket) -> Path:
        return self.folder / f"{bucket.key}.jinja"


def _digest(code: bytes) -> bytes:
    return hashlib.sha256(code).hexdigest().encode()
