"""Compiled templates, kept where Python keeps compiled modules: to compile them takes 0.1 s."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

from jinja2 import FileSystemBytecodeCache
from jinja2.bccache import Bucket


class CompiledTemplates(FileSystemBytecodeCache):
    """As with modules: what cannot be written is compiled again by the next process.

    A template that changed is compiled again, as each file has the hash of its source.
    """

    def __init__(self) -> None:
        super().__init__(str(Path(cache_from_source(__file__)).parent), "%s.jinja")

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template, if that is possible and wanted."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                super().dump_bytecode(bucket)
